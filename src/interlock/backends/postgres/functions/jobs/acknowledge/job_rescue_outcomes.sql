-- Decide how the jobs of dead sessions end: at most p_max of those in p_unlocked. See job_rescue for the rules.
create or replace function interlock.job_rescue_outcomes(
    p_session_ids bigint[], p_fences bigint[], p_unlocked bigint[], p_max integer
) returns interlock.acknowledgements
language sql volatile
as $$
    with held as materialized (
        -- Also locked ones, because they were fetched when the session ended.
        select c.session_id, c.fence, o.id, j.half, j.position, w.leaving, interlock.job_sort(j.due_at, j.priority) as sort,
               j.lane is null or j.position = min(j.position) over (partition by c.session_id, j.lane) as ran
        from interlock.job_fetched c
        join interlock.job_session w on w.id = c.session_id
        cross join lateral unnest(c.ids) as o (id)
        join interlock.job j on j.id = o.id
        where c.session_id = any (p_session_ids)
    ),
    seen as materialized (
        select h.session_id, count(*) as ran, count(h.half) as suspects from held h where h.ran group by h.session_id
    ),
    taken as materialized (
        select h.* from held h where h.fence = any (p_fences) and h.id = any (p_unlocked)
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
    select row(array_agg(x.id), array_agg(x.fence), array_agg(x.outcome), null, null, null, null, null, array_agg(x.half)
           )::interlock.acknowledgements
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
    ) x
$$;
