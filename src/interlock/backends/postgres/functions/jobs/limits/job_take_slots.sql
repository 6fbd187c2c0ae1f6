-- Take slots for jobs that have no other limit, all of them at once, if no job is queued and slots are plenty. counts:
-- how many under each key. Otherwise nothing is changed, also if reservations use a key or a person has set its figure. The
-- caller has locked the keys.
-- planner: caller
create or replace function interlock.job_take_slots(
    p_namespace text, p_keys text[], p_mosts integer[], p_at_once integer, p_now bigint,
    out taken boolean, out counts jsonb
)
language plpgsql volatile
as $$
declare
    tids tid[];
    mosts integer[];
    numbers integer[];
begin
    select array_agg(x.tid), array_agg(x.max_count), array_agg(x.count), bool_and(x.simple), jsonb_object_agg(x.key, x.count)
    into tids, mosts, numbers, taken, counts
    from (
        select l.tid, u.key, u.count, u.max_count,
               u.max_count = u.highest and not l.special and l.figures is null and coalesce(l.per, 0) = 0
               and (l.taken = 0 or l.max_count = u.max_count)
               and u.count <= least(u.max_count - l.taken, greatest(p_at_once, (u.max_count - l.taken) / 2))
               and not l.waited_for as simple
        from (
            select k.key, count(*)::integer as count, min(k.max_count) as max_count, max(k.max_count) as highest
            from unnest(p_keys, p_mosts) as k (key, max_count) where k.key is not null group by k.key
        ) u
        cross join lateral (
            select k.ctid as tid, k.taken, k.max_count, k.per, k.figures,
                   k.shared or k.override_count is not null as special,
                   exists (select from interlock.job_limit_wait w where w.key = k.key and w.namespace = p_namespace) as waited_for
            from interlock.job_limit k where k.namespace = p_namespace and k.key = u.key limit 1
        ) l
    ) x;
    if taken then
        update interlock.job_limit l set taken = l.taken + u.count, max_count = u.max_count, per = 0
        from unnest(tids, mosts, numbers) as u (tid, max_count, count)
        where l.ctid = u.tid;
    end if;
    taken := coalesce(taken, false);
end
$$;
