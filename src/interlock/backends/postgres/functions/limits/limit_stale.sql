-- How long a reservation is kept that is not requested again, in microseconds: STALE_SECONDS.
create or replace function interlock.limit_stale() returns bigint
language sql immutable
as $$ select 3600000000::bigint $$;
