-- Add a version to those that could not read a job. The last ten are kept.
create or replace function interlock.job_unreadable_by(p_unreadable_by text, p_version text) returns text
language sql immutable
as $$
    select jsonb_agg(x.v order by x.v ->> 0)::text
    from (
        select u.v
        from jsonb_array_elements(
                 coalesce(p_unreadable_by, '[]')::jsonb
                 || jsonb_build_array(coalesce(nullif(p_version, ''), '["", ""]')::jsonb))
             with ordinality as u (v, n)
        order by u.n desc limit 10
    ) x
$$;
