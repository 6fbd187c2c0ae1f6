-- An unfinished job of a namespace.
create or replace function interlock.job_of(p_namespace text, p_id bigint) returns interlock.job
language sql stable
as $$
    select j.* from interlock.job j
    where j.id = p_id and j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
$$;
