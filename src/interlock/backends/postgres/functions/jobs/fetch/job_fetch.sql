-- Fetch up to p_max_jobs jobs for a session, an equal share of each pool that is not paused, in the order of their sort keys.
-- p_at_once: how
-- many the worker can start now. p_run_length: how many jobs of one lane it takes together. p_scan_from: for each pool, the
-- sort key before which the last fetch found nothing. p_lanes: if given, take only the first jobs of these lanes.
-- session_ended: the session is not live, and nothing was fetched. recheck_in: after how many seconds another fetch may
-- find more, null if it has to be notified. scan_from: p_scan_from of the next fetch. ids, fences: the jobs in the order
-- in which to start them.
-- planner: lookups
create or replace function interlock.job_fetch(
    p_namespace text, p_session text, p_pools text[], p_names text[], p_max_jobs integer, p_at_once integer,
    p_run_length integer, p_fetch_number bigint, p_scan_from bigint[], p_start_within double precision,
    p_clock double precision, p_lanes text[] default null,
    out session_ended boolean, out recheck_in double precision, out scan_from bigint[], out ids bigint[],
    out fences bigint[]
)
language plpgsql volatile
as $$
declare
    now_us constant bigint := interlock.micros(interlock.now_or(p_clock));
    request interlock.fetch_request := (
        p_namespace, p_session, p_pools, p_names, p_max_jobs, p_at_once, p_run_length, (p_start_within * 1e6)::bigint,
        p_clock, p_lanes);
    state interlock.fetch_state := (
        now_us, 0, 0, null, null, '{}'::text[], '{}'::jsonb, false, false, false, false, false, false);
    paused text[];
    scan_starts bigint[] := p_scan_from;
    me record;
    ready record;
    scanned record;
begin
    perform interlock.durably();
    me := interlock.job_fetch_session(p_namespace, p_session, p_fetch_number, now_us);
    session_ended := me.id is null;
    ids := '{}';
    if session_ended then
        return;
    end if;
    if me.refused then
        recheck_in := 0;
        scan_from := p_scan_from;
        return;
    end if;
    if exists (select from interlock.queue_pause q where q.namespace = p_namespace) then
        -- Even if no pool is left: jobs expire in paused queues too, and others may wait for jobs that have ended.
        paused := array(select q.pool from interlock.queue_pause q where q.pool = any (p_pools));
        select coalesce(array_agg(u.pool order by u.n), '{}'), coalesce(array_agg(u.start order by u.n), '{}')
        into request.pools, scan_starts
        from unnest(p_pools, p_scan_from) with ordinality as u (pool, start, n) where u.pool <> all (paused);
    end if;
    ready := interlock.job_fetch_prepare(request, state, scan_starts);
    scanned := interlock.job_fetch_scan(request, ready.state, ready.scan_from);
    state := scanned.state;
    scan_from := scanned.scan_from;
    if cardinality(scanned.ids) > 0 then
        ids := scanned.ids;
        fences := interlock.job_fetch_record(request, state, me.id, p_fetch_number, ids, scanned.runs);
    end if;
    recheck_in := interlock.job_fetch_look_again(request, state, ready.due_at, ready.wake_at);
    if cardinality(paused) > 0 then
        -- Back to one sort key for each pool of the request. Paused ones are scanned from the start when they are resumed.
        scan_from := array(
            select coalesce(scan_from[array_position(request.pools, u.pool)], -9223372036854775808)
            from unnest(p_pools) with ordinality as u (pool, n) order by u.n);
    end if;
end
$$;
