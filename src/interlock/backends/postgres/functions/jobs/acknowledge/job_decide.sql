-- Decide what becomes of acknowledged jobs, which the caller has locked: the state in which each ends, if it does, and its
-- error and attempts. A job whose cancellation was requested is cancelled unless it is done.
-- planner: caller
create or replace function interlock.job_decide(
    acknowledged interlock.acknowledgements, fetches interlock.ended_fetches, p_max_crashes integer, p_now bigint,
    out ids bigint[], out fences bigint[], out outcomes smallint[], out states smallint[], out fetched_at bigint[],
    out began_at bigint[], out session_ids bigint[], out delays bigint[], out halves bigint[], out errors text[],
    out attempts jsonb[], out results text[]
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    fetch_fences constant bigint[] := fetches.fences;
    fetch_sessions constant bigint[] := fetches.session_ids;
    fetch_times constant bigint[] := fetches.times;
begin
    select array_agg(u.id), array_agg(u.fence), array_agg(u.outcome), array_agg(x.state), array_agg(x.fetched_at),
           array_agg(y.began_at), array_agg(x.session_id), array_agg((coalesce(u.delay, 0) * 1e6)::bigint),
           array_agg(u.half),
           array_agg(case when u.outcome = interlock.outcome_done() then ''
                          when j.cancelled is not null then j.cancelled
                          when x.unstarted or u.outcome in (interlock.outcome_snoozed(), interlock.outcome_interrupted())
                              then j.error
                          else x.error end),
           array_agg(case when x.unstarted or u.outcome = interlock.outcome_done() then j.attempts
                          else interlock.job_attempts(j.attempts, jsonb_build_array(
                              j.attempt + 1,
                              interlock.outcome_name(case when j.cancelled is not null and not x.died
                                                              then interlock.outcome_cancelled() else u.outcome end),
                              y.began_at, p_now, c.session, c.host, c.pid, c.program, u.fence, x.error,
                              coalesce(u.trace, ''))) end),
           array_agg(u.result)
    into ids, fences, outcomes, states, fetched_at, began_at, session_ids, delays, halves, errors, attempts, results
    from unnest(acknowledged.ids, acknowledged.fences, acknowledged.outcomes, acknowledged.ran, acknowledged.delays,
                acknowledged.results, acknowledged.errors, acknowledged.traces, acknowledged.halves)
         as u (id, fence, outcome, ran, delay, result, error, trace, half)
    join interlock.job j on j.id = u.id
    cross join lateral (
        select u.outcome in (interlock.outcome_returned(), interlock.outcome_unstarted()) as unstarted,
               u.outcome in (
                   interlock.outcome_crashed(), interlock.outcome_interrupted(), interlock.outcome_crashed_alone()) as died,
               case when u.outcome in (interlock.outcome_crashed(), interlock.outcome_crashed_alone())
                    then 'its worker died' else coalesce(u.error, '') end as error,
               interlock.job_ended_as(u.outcome, j.cancelled is not null, j.crashes + 1 >= p_max_crashes) as state,
               fetch_times[array_position(fetch_fences, u.fence)] as fetched_at,
               fetch_sessions[array_position(fetch_fences, u.fence)] as session_id
    ) x
    cross join lateral (
        select case when x.died then x.fetched_at else p_now - (coalesce(u.ran, 0) * 1e6)::bigint end as began_at
    ) y
    left join interlock.job_session c on c.id = x.session_id;
end
$$;
