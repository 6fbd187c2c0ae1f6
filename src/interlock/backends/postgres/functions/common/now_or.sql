-- The current time, or the time that a test passes.
create or replace function interlock.now_or(p_clock double precision) returns timestamptz
language sql volatile
as $$ select coalesce(to_timestamp(p_clock), clock_timestamp()) $$;
