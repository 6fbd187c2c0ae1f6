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
    ids bigint[];
    fences bigint[];
    outcomes smallint[];
    unlocked bigint[];
    halves bigint[];
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
    with held as materialized (
        -- Also locked ones, because they were fetched when the session ended.
        select c.session_id, c.fence, o.id, j.half, j.position, w.leaving, interlock.job_sort(j.due_at, j.priority) as sort,
               j.lane is null or j.position = min(j.position) over (partition by c.session_id, j.lane) as ran
        from interlock.job_fetched c
        join interlock.job_session w on w.id = c.session_id
        cross join lateral unnest(c.ids) as o (id)
        join interlock.job j on j.id = o.id
        where c.session_id = any (session_ids)
    ),
    seen as materialized (
        select h.session_id, count(*) as ran, count(h.half) as suspects from held h where h.ran group by h.session_id
    ),
    taken as materialized (
        select h.* from held h where h.fence = any (dead) and h.id = any (unlocked)
        order by h.ran, h.half is null, h.position desc nulls first, h.id limit p_max
    ),
    groups as materialized (
        select g.session_id, g.half, nextval('interlock.job_group') as number
        from (select distinct t.session_id, t.half from taken t where t.ran and not t.leaving) g
    ),
    placed as materialized (
        select t.id, t.fence, t.session_id, t.half is not null as suspect,
               2 * g.number + (2 * (row_number() over w - 1) >= count(*) over (partition by g.number))::integer as half
        from taken t join groups g on g.session_id = t.session_id and g.half is not distinct from t.half
        where t.ran and not t.leaving
        window w as (partition by g.number order by t.sort, t.id)
    ),
    noted as (
        update interlock.job_session w set crashed = true where w.id = any (array(select p.session_id from placed p))
    )
    select array_agg(x.id), array_agg(x.fence), array_agg(x.outcome), array_agg(x.half) into ids, fences, outcomes, halves
    from (
        select t.id, t.fence, case when t.ran then interlock.outcome_interrupted() else interlock.outcome_unstarted() end as outcome,
               null::bigint as half
        from taken t where not t.ran or t.leaving
        union all
        select p.id, p.fence,
               case when not w.crashed and case when s.suspects > 0 then p.suspect and s.suspects = 1 else s.ran = 1 end
                    then interlock.outcome_crashed_alone() else interlock.outcome_crashed() end, p.half
        from placed p
        join seen s on s.session_id = p.session_id
        join interlock.job_session w on w.id = p.session_id
    ) x;
    if ids is null then
        return;
    end if;
    return query
        select j.id, j.name::text, c.session, j.crashes + (u.outcome = interlock.outcome_crashed_alone())::integer, x.quarantined,
               case when x.quarantined or j.cancelled is not null then null
                    when u.outcome in (interlock.outcome_unstarted(), interlock.outcome_interrupted()) then j.half else u.half end
        from unnest(ids, fences, outcomes, halves) as u (id, fence, outcome, half)
        join interlock.job j on j.id = u.id
        join interlock.job_fetched c on c.fence = u.fence
        cross join lateral (
            select u.outcome = interlock.outcome_crashed_alone() and j.cancelled is null
                   and j.crashes + 1 >= p_max_crashes as quarantined) x;
    perform interlock.job_acknowledge(
        p_namespace, '', (ids, fences, outcomes, null, null, null, null, null, halves)::interlock.acknowledgements,
        p_max_crashes, p_clock);
end
$$;
