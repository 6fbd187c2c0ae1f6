-- Handle signals: create the rows of their lanes, and make idle lanes ready. One transaction at a time does this in a
-- namespace; lanes that others have locked are left for the next fetch. p_own: lanes that this transaction has
-- signalled. unfinished: whether any were left.
-- planner: array_joins
create or replace function interlock.job_wake_lanes(
    p_namespace text, p_max integer, p_own text[], out unfinished boolean, out pools text[], out sorts bigint[]
)
language plpgsql volatile
as $$
declare
    tids tid[];
    tid_lanes text[];
    positions bigint[];
    lanes text[];
    lows bigint[];
    owns boolean[];
    known text[];
    fetched text[];
    ours text[];
    handled text[];
begin
    unfinished := true;
    if not pg_try_advisory_xact_lock(1229870158, hashtext(p_namespace)) then
        return;
    end if;
    select array_agg(s.ctid), array_agg(s.lane), array_agg(s.position) into tids, tid_lanes, positions
    from (
        select s.ctid, s.lane, s.position from interlock.job_signal s
        where s.namespace = p_namespace order by s.position limit p_max
    ) s;
    if tids is null then
        unfinished := false;
        return;
    end if;
    select array_agg(x.lane), array_agg(x.low), array_agg(o.lane is not null) into lanes, lows, owns
    from (select t.lane, min(t.low) as low from unnest(tid_lanes, positions) as t (lane, low) group by t.lane) x
    left join (select distinct u.lane from unnest(p_own) as u (lane)) o on o.lane = x.lane;
    known := array(select l.lane from interlock.job_lane l where l.lane = any (lanes));
    -- An acknowledgement that ends the run of a fetched lane locks the lane and then looks for jobs behind the run. If
    -- the lane is not locked now, that is still to come and will see what is signalled here, so nothing has to be done.
    -- The lock is not kept: the acknowledgement would wait for this whole fetch. Lanes that this transaction signalled
    -- stay locked, because no other sees them before the commit.
    begin
        fetched := array(
            select l.lane from interlock.job_lane l join unnest(lanes, lows, owns) as x (lane, low, own) on x.lane = l.lane
            where l.lane = any (lanes) and l.fetched and l.low <= x.low and not x.own for update of l skip locked);
        raise sqlstate 'IL000';
    exception when sqlstate 'IL000' then
        null;
    end;
    ours := array(
        select l.lane from interlock.job_lane l join unnest(lanes, lows, owns) as x (lane, low, own) on x.lane = l.lane
        where l.lane = any (lanes) and (not l.fetched or l.low > x.low or x.own) for update of l skip locked);
    update interlock.job_lane l set low = x.low
    from unnest(lanes, lows) as x (lane, low)
    where l.lane = any (ours) and l.lane = x.lane and l.low > x.low;
    with new as (
        insert into interlock.job_lane as l (lane, low)
        select x.lane, x.low from unnest(lanes, lows) as x (lane, low)
        left join unnest(known) as k (lane) on k.lane = x.lane
        where k.lane is null
        on conflict do nothing
        returning l.lane
    )
    select ours || coalesce(array_agg(new.lane), '{}') into ours from new;
    handled := array(select u.lane from unnest(ours) as u (lane) union select u.lane from unnest(fetched) as u (lane));
    delete from interlock.job_signal s
    where s.ctid = any (array(
        select t.tid from unnest(tids, tid_lanes) as t (tid, lane) join unnest(handled) as h (lane) on h.lane = t.lane));
    unfinished := cardinality(tids) = p_max or cardinality(handled) < cardinality(lanes);
    select a.pools, a.sorts into pools, sorts from interlock.job_advance(p_namespace, ours, true) a;
end
$$;
