-- The name of the partition of the history that holds a time.
create or replace function interlock.job_day(p_at bigint) returns text
language sql immutable
as $$ select 'job_history_' || to_char(to_timestamp(p_at / 1000000) at time zone 'UTC', 'YYYYMMDD') $$;
