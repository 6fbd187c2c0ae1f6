-- Take jobs from sessions that have ended. All of them may have been running, but only the first of each run; that one
-- comes last, so that a run that is taken in parts has one crash. If the process had been told to stop, nothing changes
-- for the jobs. Otherwise those that may have been running become suspects: new suspects, and suspects of one half,
-- form a group that is split into two new halves. The crash counts only for a job that was the only suspect, or that
-- was the only job without being a suspect. If a session is rescued in parts, each part has its own groups, and a crash
-- can count only in the first.
create or replace function interlock.job_rescue(
    p_namespace text, p_max integer, p_max_crashes integer, p_clock double precision
) returns table (id bigint, name text, session text, crashes integer, quarantined boolean, half bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    now_is timestamptz := interlock.now_or(p_clock);
    session_ids bigint[];
    dead bigint[];
    unlocked bigint[];
    rescued interlock.acknowledgements;
begin
    -- One rescuer per session at a time, so that all jobs of the session are considered together.
    session_ids := array(
        select w.id from interlock.job_session w
        where w.id = any (array(
            select distinct c.session_id from interlock.job_fetched c
            where c.namespace = p_namespace
              and not exists (
                  select from interlock.session s
                  where s.namespace = c.namespace and s.id = c.session and s.expires_at > now_is)))
        order by w.id for update skip locked);
    if session_ids = '{}' then
        return;
    end if;
    dead := array(
        select c.fence from interlock.job_fetched c where c.session_id = any (session_ids) order by c.fence for update skip locked);
    -- After a stall of the server no session may have been able to renew; live ones renew now.
    if dead = '{}' or clock_timestamp() - statement_timestamp() > interval '1 second' then
        return;
    end if;
    -- Jobs that another transaction has locked are left for the next time.
    unlocked := interlock.job_unlocked(
        array(select unnest(c.ids) from interlock.job_fetched c where c.fence = any (dead)), false);
    rescued := interlock.job_rescue_outcomes(session_ids, dead, unlocked, p_max);
    if rescued.ids is null then
        return;
    end if;
    return query
        select j.id, j.name::text, c.session, j.crashes + (u.outcome = interlock.outcome_crashed_alone())::integer, x.quarantined,
               case when x.quarantined or j.cancelled is not null then null
                    when u.outcome in (interlock.outcome_unstarted(), interlock.outcome_interrupted()) then j.half else u.half end
        from unnest(rescued.ids, rescued.fences, rescued.outcomes, rescued.halves) as u (id, fence, outcome, half)
        join interlock.job j on j.id = u.id
        join interlock.job_fetched c on c.fence = u.fence
        cross join lateral (
            select u.outcome = interlock.outcome_crashed_alone() and j.cancelled is null
                   and j.crashes + 1 >= p_max_crashes as quarantined) x;
    perform interlock.job_acknowledge(p_namespace, '', rescued, p_max_crashes, p_clock);
end
$$;
