-- The error of a job that ends without having been fetched.
create or replace function interlock.job_end_error(p_state smallint, p_error text, p_last text, p_expires_at bigint)
returns text
language sql immutable
as $$
    select case when p_state = interlock.state_expired()
        then 'not started by ' || to_char(to_timestamp(p_expires_at / 1e6) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        else coalesce(p_error, p_last) end
$$;
