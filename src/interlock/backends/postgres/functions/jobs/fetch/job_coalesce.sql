-- Coalesce the first job of a lane, which the caller has locked, with those directly behind it: up to p_max of them are
-- superseded by the newest one, which also takes their position in a limit's queue. newest: that job; more: whether
-- there may be more.
-- planner: index_reads
create or replace function interlock.job_coalesce(
    p_namespace text, p_lane text, p_now bigint, p_max integer, out newest bigint, out more boolean
)
language plpgsql volatile
as $$
declare
    same bigint[];
    older bigint[];
    place bigint;
begin
    select array_agg(x.id order by x.position), count(*) = p_max into same, more
    from (
        select j.id, j.position,
               bool_and(j.coalesces and not (j.apart or j.half is not null and j.n > 1) and j.name = j.head_name)
                   over (order by j.position) as fits
        from (
            select y.*, row_number() over w as n, first_value(y.name) over w as head_name
            from (
                select q.id, q.position, q.coalesces, q.apart, q.half, q.name
                from interlock.job_lane l
                join interlock.job q on q.lane = l.lane and q.position >= least(
                    l.low, (select min(s.position) from interlock.job_signal s where s.namespace = p_namespace))
                where l.lane = p_lane
                order by q.position limit p_max
            ) y
            window w as (order by y.position)
        ) j
    ) x
    where x.fits;
    newest := same[cardinality(same)];
    older := same[: cardinality(same) - 1];
    if older <> '{}' then
        if exists (select from interlock.job j where j.id = newest and (j.use_key is not null or j.uses is not null)) then
            place := least(
                (select min(w.ticket) from interlock.job_limit_wait w where w.id = any (older)),
                (select min(j.ticket) from interlock.job j where j.id = any (older)));
        end if;
        if place is not null then
            -- It queues where they queued if that is one of its limits; otherwise it gets their ticket when it queues.
            insert into interlock.job_limit_wait (id, ticket, per, max_count, woken, namespace, key, pool, name)
            select j.id, place, u.per, u.max_count, true, p_namespace, u.key, j.pool, j.name
            from interlock.job j
            cross join lateral interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u
            where j.id = newest
              and u.key in (select w.key from interlock.job_limit_wait w where w.id = any (older))
            limit 1;
            update interlock.job j set ticket = place where j.id = newest;
        end if;
        perform interlock.job_leave_limit_queues(p_namespace, older);
        perform interlock.job_end(p_namespace, older, interlock.state_superseded(), newest, null, p_now);
    end if;
end
$$;
