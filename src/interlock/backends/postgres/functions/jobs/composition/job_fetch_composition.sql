-- Before a fetch picks jobs: end those that have expired (p_expired), and let those continue that wait for others which have
-- ended (p_ended). signalled: the lanes of the latter. Workers of other pools are notified.
-- planner: caller
create or replace function interlock.job_fetch_composition(
    request interlock.fetch_request, inout state interlock.fetch_state, inout scan_from bigint[], p_ended boolean,
    p_expired boolean, out signalled text[]
)
language plpgsql volatile
as $$
declare
    lowest constant bigint := -9223372036854775808;
    done record;
    made record;
begin
    if p_expired then
        done := interlock.job_expire(request.namespace, state.now, 500);
        state.busy := state.busy or done.unfinished;
        made := interlock.job_advance(request.namespace, done.lanes, true);
        scan_from := array_fill(lowest, array[cardinality(request.pools)]);
        perform interlock.job_notify(u.pool, u.sort) from unnest(made.pools, made.sorts) as u (pool, sort)
        where request.lanes is not null or u.pool <> all (request.pools);
    end if;
    if p_ended or p_expired and exists (
        select from interlock.job_after_signal s where s.namespace = request.namespace)
    then
        done := interlock.job_continue(request.namespace, state.now, 1000);
        state.incomplete := state.incomplete or done.unfinished and done.moved;
        state.busy := state.busy or done.unfinished;
        signalled := done.signalled;
        scan_from := array_fill(lowest, array[cardinality(request.pools)]);
        perform interlock.job_notify(u.pool, u.sort) from unnest(done.pools, done.sorts) as u (pool, sort)
        where request.lanes is not null or u.pool <> all (request.pools);
    end if;
end
$$;
