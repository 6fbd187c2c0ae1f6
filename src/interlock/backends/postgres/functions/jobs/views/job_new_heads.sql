-- The first jobs of lanes that were signalled and have no row yet, with their sort keys.
create or replace function interlock.job_new_heads(p_namespace text)
returns table (id bigint, pool text, sort bigint)
language sql stable
as $$
    select h.id, h.pool, interlock.job_sort(h.due_at, h.priority)
    from (
        select distinct s.lane from (
            select x.lane from interlock.job_signal x where x.namespace = p_namespace order by x.position limit 10000
        ) s
    ) l
    cross join lateral (
        select j.* from interlock.job j where j.lane = l.lane and j.position is not null order by j.position limit 1
    ) h
    where not exists (select from interlock.job_ready r where r.lane = l.lane)
      and interlock.job_state(h::interlock.job, p_namespace) = 'ready'
$$;
