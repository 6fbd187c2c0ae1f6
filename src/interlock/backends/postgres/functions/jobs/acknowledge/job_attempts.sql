-- Add an attempt to those that are kept: the first one and the last ones, 50 in all.
create or replace function interlock.job_attempts(p_attempts jsonb, p_attempt jsonb) returns jsonb
language sql immutable
as $$
    select case when jsonb_array_length(p_attempts) >= 50 then p_attempts - 1 else coalesce(p_attempts, '[]') end
           || jsonb_build_array(p_attempt)
$$;
