-- The clock that decides; tests pass a time of their own.
create or replace function interlock.now_or(given double precision) returns timestamptz
language sql volatile
as $$ select coalesce(to_timestamp(given), clock_timestamp()) $$;
