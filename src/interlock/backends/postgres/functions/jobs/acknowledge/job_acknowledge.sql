-- Acknowledge fetched jobs. Each element of the arrays is one; see job_codes.py for the outcomes. p_results: results,
-- or for unreadable jobs the version as [fingerprint, version]. p_halves: for jobs that crashed, the half that they now
-- belong to. p_outcomes null: all are done; other arrays may be null too. refused: the positions in the arrays of jobs
-- whose fetch had ended, unless it ended with the same outcome. ready: the lowest sort key that became ready, or null.
-- Waits at most two seconds for a row: the caller then finds out which jobs are locked, and acknowledges the others.
-- planner: lookups
create or replace function interlock.job_acknowledge(
    p_namespace text, p_session text, p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_ran double precision[],
    p_delays double precision[], p_results text[], p_errors text[], p_traces text[], p_max_crashes integer,
    p_clock double precision, p_halves bigint[] default null, out refused integer[], out ready bigint
)
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    now_us bigint;
    c record;
    lanes text[];
    idle text[];
    keys text[];
    became_ready record;
begin
    perform interlock.durably();
    select * into c from interlock.job_end_fetches(p_ids, p_fences);
    now_us := interlock.micros(interlock.now_or(p_clock));
    if c.matched is not null then
        refused := interlock.job_refused(p_ids, p_fences, p_outcomes, c.matched);
        select array_agg(u.id), array_agg(u.fence), array_agg(u.outcome), array_agg(u.ran), array_agg(u.delay),
               array_agg(u.result), array_agg(u.error), array_agg(u.trace), array_agg(u.half)
        into p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves
        from (
            select u.* from unnest(p_ids, p_fences,
                                   coalesce(p_outcomes, array_fill(interlock.outcome_done(), array[cardinality(p_ids)])),
                                   p_ran, p_delays, p_results, p_errors, p_traces, p_halves)
                            with ordinality as u (id, fence, outcome, ran, delay, result, error, trace, half, n)
            where u.n = any (c.matched) order by u.n
        ) u;
        if p_ids is null then
            return;
        end if;
    end if;
    if c.laned then
        idle := array(
            select j.lane from unnest(c.last_ones) as u (id)
            cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j order by j.lane);
        lanes := idle;
        if p_outcomes is not null then
            lanes := array(
                select distinct j.lane from unnest(p_ids) as u (id)
                cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j
                where j.lane is not null order by j.lane);
        end if;
        perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
        update interlock.job_lane l set fetched = false where l.lane = any (idle);
    end if;

    if p_outcomes is not null then
        select m.keys, m.ready into keys, ready
        from interlock.job_acknowledge_each(
            p_namespace, p_session, p_ids, p_fences, p_outcomes, p_ran, p_delays, p_results, p_errors, p_traces, p_halves,
            c.fences, c.session_ids, c.times, p_max_crashes, now_us) m;
    elsif c.laned or c.limited then
        with gone as (
            delete from interlock.job j using unnest(p_ids, p_fences, p_ran, p_results) as s (id, fence, ran, result)
            where j.id = s.id
            returning j.*, s.fence as by_fence, s.ran, s.result
        ),
        kept as (
            insert into interlock.job_history (
                id, enqueued_at, due_at, fence, keep_result, fetched_at, started_at, finished_at, session_id, kept_until, use_per,
                use_max_count, attempt, priority, crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane,
                use_key, uses, arguments, options, error, attempts)
            select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, c.times[array_position(c.fences, g.by_fence)],
                   now_us - (g.ran * 1e6)::bigint, now_us, c.session_ids[array_position(c.fences, g.by_fence)],
                   case when g.result is not null then now_us + g.keep_result end, g.use_per,
                   g.use_max_count, g.attempt + 1, g.priority, g.crashes, interlock.state_done(), interlock.outcome_done(),
                   g.on_failure, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key, g.uses, g.arguments, g.options, '', g.attempts
            from gone g
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, now_us + g.keep_result, p_namespace, g.result from gone g where g.result is not null
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        ),
        freed as (
            insert into interlock.job_slot_freed as f (namespace, key, max_count, per, count)
            select p_namespace, u.key, u.max_count, u.per, sum(x.count)
            from (
                select g.use_key, g.use_max_count, g.use_per, g.uses, count(*) as count from gone g
                where c.limited group by g.use_key, g.use_max_count, g.use_per, g.uses
            ) x
            cross join lateral interlock.job_uses(x.use_key, x.use_max_count, x.use_per, x.uses) u
            group by u.key, u.max_count, u.per
            returning f.key
        )
        select array_agg(distinct f.key) into keys from freed f;
    else
        with gone as (
            delete from interlock.job j using unnest(p_ids, p_fences, p_ran, p_results) as s (id, fence, ran, result)
            where j.id = s.id
            returning j.*, s.fence as by_fence, s.ran, s.result
        ),
        results as (
            insert into interlock.job_result (id, kept_until, namespace, result)
            select g.id, now_us + g.keep_result, p_namespace, g.result from gone g where g.result is not null
            on conflict (id) do update set kept_until = excluded.kept_until, result = excluded.result
        )
        insert into interlock.job_history (
            id, enqueued_at, due_at, fence, keep_result, fetched_at, started_at, finished_at, session_id, kept_until, use_per,
            use_max_count, attempt, priority, crashes, state, last_outcome, on_failure, coalesces, paced, pool, name, lane,
            use_key, uses, arguments, options, error, attempts)
        select g.id, g.enqueued_at, g.due_at, g.by_fence, g.keep_result, c.times[array_position(c.fences, g.by_fence)],
               now_us - (g.ran * 1e6)::bigint, now_us, c.session_ids[array_position(c.fences, g.by_fence)],
               case when g.result is not null then now_us + g.keep_result end, g.use_per,
               g.use_max_count, g.attempt + 1, g.priority, g.crashes, interlock.state_done(), interlock.outcome_done(),
               g.on_failure, g.coalesces, g.paced, g.pool, g.name, g.lane, g.use_key, g.uses, g.arguments, g.options, '', g.attempts
        from gone g;
    end if;
    if p_outcomes is null then
        perform interlock.job_notify_ends(p_namespace, p_ids);
    end if;

    if cardinality(idle) > 0 then
        for became_ready in
            select u.pool, u.sort from interlock.job_advance(p_namespace, idle, false) a
            cross join lateral unnest(a.pools, a.sorts) as u (pool, sort)
        loop
            ready := least(ready, became_ready.sort);
            perform interlock.job_notify_others(p_namespace, p_session, became_ready.pool, became_ready.sort);
        end loop;
    end if;
    if exists (select from unnest(keys) as u (key)
               where exists (select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace)) then
        for became_ready in
            select u.pool, u.sort from interlock.job_release_slots(p_namespace, keys, now_us) f
            cross join lateral unnest(f.pools, f.sorts) as u (pool, sort)
        loop
            ready := least(ready, became_ready.sort);
            perform interlock.job_notify_others(p_namespace, p_session, became_ready.pool, became_ready.sort);
        end loop;
    end if;
end
$$;
