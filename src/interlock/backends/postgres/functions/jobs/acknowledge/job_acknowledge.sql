-- Acknowledge fetched jobs. refused: the positions in the arrays of jobs whose fetch had ended, unless it ended with the
-- same outcome. ready: the lowest sort key that became ready, or null. Waits at most two seconds for a row: the caller then
-- finds out which jobs are locked, and acknowledges the others.
-- planner: lookups
create or replace function interlock.job_acknowledge(
    p_namespace text, p_session text, acknowledged interlock.acknowledgements, p_max_crashes integer,
    p_clock double precision, out refused integer[], out ready bigint
)
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    fetches interlock.ended_fetches;
    now_us bigint;
    idle text[];
    keys text[];
    each record;
begin
    perform interlock.durably();
    fetches := interlock.job_end_fetches(acknowledged.ids, acknowledged.fences);
    now_us := interlock.micros(interlock.now_or(p_clock));
    if fetches.matched is not null then
        refused := interlock.job_refused(acknowledged.ids, acknowledged.fences, acknowledged.outcomes, fetches.matched);
        acknowledged := interlock.job_acknowledge_matched(acknowledged, fetches.matched);
        if acknowledged.ids is null then
            return;
        end if;
    end if;
    if fetches.laned then
        idle := interlock.job_acknowledge_lanes(acknowledged, fetches.last_ones);
    end if;
    if acknowledged.outcomes is null and not fetches.limited then
        perform interlock.job_acknowledge_done(p_namespace, acknowledged, fetches, now_us);
    elsif acknowledged.outcomes is null then
        keys := interlock.job_acknowledge_done_limited(p_namespace, acknowledged, fetches, now_us);
    else
        each := interlock.job_acknowledge_each(p_namespace, p_session, acknowledged, fetches, p_max_crashes, now_us);
        keys := each.keys;
        ready := each.ready;
    end if;
    if cardinality(idle) > 0 or keys is not null then
        ready := least(ready, interlock.job_acknowledge_wake(p_namespace, p_session, idle, keys, now_us));
    end if;
end
$$;
