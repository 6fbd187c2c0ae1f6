-- The limits of a job, in the order of their keys.
create or replace function interlock.job_uses(p_key text, p_most integer, p_per bigint, p_uses jsonb)
returns table (key text, max_count integer, per bigint)
language sql immutable
as $$
    select p_key, p_most, p_per where p_key is not null
    union all
    select u ->> 0, (u ->> 1)::integer, (u ->> 2)::bigint from jsonb_array_elements(p_uses) u
$$;
