-- Make woken jobs ready: first jobs of lanes by a signal, others at once. pools, sorts: where; signalled: the lanes.
-- planner: lookups
create or replace function interlock.job_make_ready(
    p_namespace text, p_ids bigint[], out pools text[], out sorts bigint[], out signalled text[]
)
language plpgsql volatile
as $$
begin
    with lanes as (
        update interlock.job j set apart = false from unnest(p_ids) as u (id)
        where j.id = u.id and j.lane is not null returning j.lane, j.position, j.pool
    ),
    signals as (
        insert into interlock.job_signal (namespace, position, lane) select p_namespace, l.position, l.lane from lanes l
    ),
    made as (
        insert into interlock.job_ready as r (pool, sort, id, half, use_max_count, class, limited, name, use_key)
        select j.pool, interlock.job_sort(j.due_at, j.priority), j.id, j.half, case when j.use_per = 0 then j.use_max_count end,
               interlock.job_class(j.half, j.paced), j.use_key is not null or j.uses is not null, j.name,
               case when j.use_per = 0 then j.use_key end
        from unnest(p_ids) as u (id) join interlock.job j on j.id = u.id
        where j.lane is null
        returning r.pool, r.sort
    )
    select array_agg(x.pool), array_agg(x.sort), (select array_agg(l.lane) from lanes l) into pools, sorts, signalled
    from (
        select m.pool, min(m.sort) as sort
        from (select made.pool, made.sort from made union all select l.pool, 9223372036854775807 from lanes l) m
        group by m.pool
    ) x;
end
$$;
