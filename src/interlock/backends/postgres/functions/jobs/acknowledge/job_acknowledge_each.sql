-- Acknowledge jobs that were removed from job_fetched, each with its own outcome; see job_acknowledge. Their lanes are
-- locked. keys: the keys of limits under which slots were freed. ready: the lowest sort key that became ready.
-- planner: caller
create or replace function interlock.job_acknowledge_each(
    p_namespace text, p_session text, acknowledged interlock.acknowledgements, fetches interlock.ended_fetches,
    p_max_crashes integer, p_now bigint, out keys text[], out ready bigint
)
language plpgsql volatile
as $$
declare
    decided interlock.decided_jobs;
begin
    -- A cancellation that is being requested is visible once the job is locked.
    perform from interlock.job j where j.id = any (acknowledged.ids) order by j.id for update;
    decided := interlock.job_decide(acknowledged, fetches, p_max_crashes, p_now);
    if fetches.limited then
        keys := interlock.job_acknowledge_slots(p_namespace, decided.ids);
        perform interlock.job_uncount_starts(p_namespace, decided.ids, decided.outcomes);
    end if;
    perform interlock.job_acknowledge_ended(p_namespace, decided, p_now);
    ready := interlock.job_acknowledge_kept(p_namespace, p_session, decided, p_now);
    if interlock.outcome_unreadable() = any (decided.outcomes) then
        perform interlock.job_park_unreadable(p_namespace, decided.ids, p_now);
    end if;
end
$$;
