-- Hold a lane: no further job of it starts.
create or replace function interlock.job_hold(
    p_namespace text, p_lane text, p_attribution jsonb, p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    held text := p_namespace || '/' || p_lane;
    keys text[];
    in_line bigint[];
    tickets bigint[];
    l interlock.job_lane;
    actor text := p_attribution ->> 0;
    reason text := p_attribution ->> 1;
begin
    perform interlock.durably();
    perform interlock.job_lane_lock(p_namespace, held);
    select * into l from interlock.job_lane x where x.lane = held;
    if l.held_since is null or (l.held_by, l.held_reason) is distinct from (actor, reason) then
        update interlock.job_lane x
        set held_since = coalesce(x.held_since, now_us), held_by = actor, held_reason = reason where x.lane = held;
        perform interlock.journal_add(
            p_namespace, now_us, p_attribution, 'lane.hold', p_lane,
            interlock.journal_hold(l.held_by, l.held_reason, l.parked_reason),
            interlock.journal_hold(actor, reason, l.parked_reason));
    end if;
    delete from interlock.job_ready r where r.lane = held;
    -- A first job that waits for a limit leaves its queue, so that others do not wait for it, and joins it again when
    -- the lane is released.
    select array_agg(w.id), array_agg(w.ticket) into in_line, tickets
    from (
        select x.id from interlock.job x
        where x.lane = held and x.position is not null order by x.position limit 10
    ) j
    join interlock.job_limit_wait w on w.id = j.id;
    if in_line is not null then
        keys := interlock.job_leave_limit_queues(p_namespace, in_line);
        update interlock.job j set apart = false, ticket = u.ticket
        from unnest(in_line, tickets) as u (id, ticket) where j.id = u.id;
    end if;
    perform interlock.job_interrupt(
        p_namespace, c.session, o.id, c.fence, 'held by ' || actor || ': ' || reason, now_us)
    from interlock.job_fetched c
    cross join lateral unnest(c.ids) as o (id)
    join interlock.job j on j.id = o.id
    where c.namespace = p_namespace and c.runs is not null and j.lane = held;
    perform interlock.job_advance_lane(p_namespace, null, keys, now_us);
end
$$;
