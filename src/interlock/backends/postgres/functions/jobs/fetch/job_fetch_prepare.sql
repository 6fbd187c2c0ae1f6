-- Make ready what can run: jobs that are due, jobs whose limit has room again, jobs that waited for others, and lanes that
-- were signaled. Jobs that have expired end. scan_from: from which sort key to scan each pool. due_at, wake_at: when the next
-- job is due, and when a limit has room again or a job expires. Other
-- workers are notified of what becomes ready in pools that this fetch does not take from; a fetch of some lanes leaves
-- everything else to them.
-- planner: caller
create or replace function interlock.job_fetch_prepare(
    request interlock.fetch_request, inout state interlock.fetch_state, inout scan_from bigint[],
    out due_at bigint, out wake_at bigint
)
language plpgsql volatile
as $$
declare
    lowest constant bigint := -9223372036854775808;
    pools constant integer := cardinality(request.pools);
    signals boolean;
    freed boolean;
    ended boolean;
    expires_at bigint;
    done record;
    signalled text[];
begin
    select exists (select from interlock.job_signal s where s.namespace = request.namespace),
           exists (select from interlock.job_slot_freed f where f.namespace = request.namespace),
           exists (select from interlock.job_after_signal s where s.namespace = request.namespace)
    into signals, freed, ended;
    select n.due_at, n.wake_at, n.expires_at into due_at, wake_at, expires_at
    from interlock.job_next_times(request.namespace, request.pools) n;
    if ended or expires_at <= state.now then
        if interlock.job_composition_lock(request.namespace, false) then
            done := interlock.job_fetch_composition(request, state, scan_from, ended, expires_at <= state.now);
            state := done.state;
            scan_from := done.scan_from;
            signalled := done.signalled;
            signals := true;
            freed := freed or expires_at <= state.now;
            select n.due_at, n.wake_at, n.expires_at into due_at, wake_at, expires_at
            from interlock.job_next_times(request.namespace, request.pools) n;
        else
            state.busy := true;
        end if;
    end if;
    if due_at <= state.now then
        select p.unfinished, p.signalled into done
        from interlock.job_promote(request.namespace, request.pools, state.now, 1000) p;
        state.incomplete := state.incomplete or done.unfinished;
        signalled := signalled || done.signalled;
        scan_from := array_fill(lowest, array[pools]);
        signals := true;
        if request.lanes is not null then
            perform interlock.job_notify(u.pool, lowest) from unnest(request.pools) as u (pool);
        end if;
    end if;
    if freed or wake_at <= state.now then
        select f.locked, f.pools, f.sorts, f.signalled, f.shared into done
        from interlock.job_release_slots(request.namespace, null, state.now) f;
        state.locked := done.locked;
        state.checked := done.shared;
        state.now := greatest(state.now, interlock.micros(interlock.now_or(request.clock)));
        signalled := signalled || done.signalled;
        if done.pools is not null then
            scan_from := array_fill(lowest, array[pools]);
            signals := true;
            perform interlock.job_notify(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
            where request.lanes is not null or u.pool <> all (request.pools);
        end if;
    end if;
    if signals then
        select r.unfinished, r.pools, r.sorts into done
        from interlock.job_wake_lanes(
            request.namespace, least(2000, greatest(100, 4 * request.max_jobs)), signalled) r;
        state.busy := state.busy or done.unfinished;
        if done.pools is not null then
            for i in 1 .. pools loop
                scan_from[i] := least(scan_from[i], done.sorts[array_position(done.pools, request.pools[i])]);
            end loop;
            perform interlock.job_notify(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
            where request.lanes is not null or u.pool <> all (request.pools);
        end if;
    end if;
    wake_at := least(wake_at, expires_at);
end
$$;
