-- The jobs on a key, as reservations count them: how many hold it and with which figures, slots that were freed and not
-- counted yet taken off; how many that a live worker takes wait with a smaller ticket, a thousand at most; and the figure
-- that a person set. The figures are parallel arrays.
-- planner: index_reads
create or replace function interlock.limit_jobs(
    p_namespace text, p_key text, p_ticket bigint, p_now timestamptz, out taken integer, out mosts integer[],
    out pers bigint[], out ahead integer, out override_count integer, out override_per bigint
)
language plpgsql stable
as $$
declare
    k interlock.job_limit;
begin
    taken := 0;
    mosts := '{}';
    pers := '{}';
    ahead := 0;
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    override_count := k.override_count;
    override_per := k.override_per;
    if k.taken > 0 then
        select coalesce(sum(x.count), 0)::integer, coalesce(array_agg(x.max_count), '{}'), coalesce(array_agg(x.per), '{}')
        into taken, mosts, pers
        from (
            select f.max_count, f.per, sum(f.count) as count
            from (
                select k.max_count, k.per, k.taken as count where k.figures is null
                union all
                select split_part(g.key, '/', 1)::integer, split_part(g.key, '/', 2)::bigint, g.value::integer
                from jsonb_each_text(k.figures) g
                union all
                select s.max_count, s.per, -s.count from interlock.job_slot_freed s
                where s.namespace = p_namespace and s.key = p_key and s.count > 0
            ) f group by f.max_count, f.per having sum(f.count) > 0
        ) x;
    end if;
    if exists (select from interlock.job_limit_wait w where w.key = p_key and w.namespace = p_namespace) then
        select count(*) into ahead from (
            select from interlock.job_limit_wait w
            where w.key = p_key and w.namespace = p_namespace and w.ticket < p_ticket
              and exists (
                  select from interlock.job_worker x
                  join interlock.session s on s.namespace = x.namespace and s.id = x.session and s.expires_at > p_now
                  where x.namespace = p_namespace and w.name = any (x.names)
                    and substr(w.pool, length(p_namespace) + 2) = any (x.queues))
              and not exists (select from interlock.queue_pause q where q.pool = w.pool)
            limit 1000) y;
    end if;
end
$$;
