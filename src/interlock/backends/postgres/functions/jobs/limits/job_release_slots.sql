-- Count slots that were freed under keys, and make waiting jobs ready there. p_keys null: wherever slots were freed or
-- a rate has room again. pools, sorts: where jobs became ready; signalled: lanes that did. shared: reservations use some of
-- the keys, so that the next time at which a limit has room may have changed.
-- planner: index_reads
create or replace function interlock.job_release_slots(
    p_namespace text, p_keys text[], p_now bigint, out locked text[], out pools text[], out sorts bigint[],
    out signalled text[], out shared boolean
)
language plpgsql volatile
as $$
declare
    due text[];
    freed_keys text[];
    numbers bigint[];
    freed record;
    one text;
    woken bigint[] := '{}';
    now_is constant timestamptz := to_timestamp(p_now / 1e6);
    shared_keys text[];
begin
    locked := p_keys;
    if p_keys is null then
        due := array(
            select l.key from interlock.job_limit l
            where l.namespace = p_namespace and l.wake_at <= p_now order by l.wake_at limit 100);
        select array_agg(f.number), array_agg(f.key) into numbers, locked
        from (
            select f.number, f.key from interlock.job_slot_freed f where f.namespace = p_namespace order by f.number limit 2000
        ) f;
        locked := array(select u.key from unnest(locked) as u (key) union select unnest(due));
    end if;
    perform from unnest(array(select u.key from unnest(locked) as u (key) order by u.key collate "C")) as u (key)
    cross join lateral (
        select from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1 for update
    ) l;
    -- Unused keys may have been removed meanwhile; the others are locked now.
    freed_keys := locked;
    locked := array(
        select l.key from unnest(freed_keys) as u (key)
        cross join lateral (
            select l.key from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1
        ) l);
    if p_keys is not null then
        numbers := array(
            select x.number from interlock.job_slot_freed x
            where x.namespace = p_namespace and x.key = any (freed_keys) order by x.number limit 1000);
    end if;
    shared_keys := array(
        select u.key from unnest(locked) as u (key)
        cross join lateral (
            select l.shared from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1
        ) l where l.shared);
    shared := shared_keys <> '{}';
    if shared then
        perform interlock.limit_settle(p_namespace, shared_keys, now_is, p_now - interlock.limit_stale());
    end if;
    for freed in
        with gone as (
            delete from interlock.job_slot_freed f where f.namespace = p_namespace and f.number = any (numbers)
            returning f.key, f.max_count, f.per, f.count
        ),
        each as materialized (
            select l.tid, l.simple and count(*) over (partition by l.tid) = 1 as simple, g.key, g.max_count, g.per, g.count
            from (
                select gone.key, gone.max_count, gone.per, sum(gone.count)::integer as count from gone
                where gone.count > 0 group by gone.key, gone.max_count, gone.per
            ) g
            join unnest(locked) as o (key) on o.key = g.key
            cross join lateral (
                select k.ctid as tid, k.figures is null and (k.max_count, k.per) = (g.max_count, g.per) as simple
                from interlock.job_limit k where k.namespace = p_namespace and k.key = g.key limit 1
            ) l
        ),
        counted as (
            update interlock.job_limit l set taken = l.taken - e.count from each e where e.simple and l.ctid = e.tid
        )
        select e.key, e.max_count, e.per, e.count from each e where not e.simple
    loop
        perform interlock.job_count(p_namespace, freed.key, freed.max_count, freed.per, -freed.count);
    end loop;
    for one in
        select u.key from unnest(locked) as u (key)
        cross join lateral (
            select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace limit 1
        ) w
    loop
        woken := woken || interlock.job_wake(p_namespace, one, p_now, null, null);
        due := array_remove(due, one);
    end loop;
    if cardinality(due) > 0 then
        update interlock.job_limit l set wake_at = null where l.namespace = p_namespace and l.key = any (due);
    end if;
    if cardinality(woken) > 0 then
        select m.pools, m.sorts, m.signalled into pools, sorts, signalled
        from interlock.job_make_ready(p_namespace, woken) m;
    end if;
end
$$;
