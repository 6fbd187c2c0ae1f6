-- What people are told. A view's columns are the same for jobs that are unfinished and for those that have ended.

create function interlock.job_open_views(p_namespace text)
returns table (
    id bigint, name text, queue text, lane text, priority smallint, state text, attempt integer, crashes smallint,
    enqueued_at bigint, due_at bigint, claimed_at bigint, started_at bigint, finished_at bigint, session text, host text,
    pid integer, program text, fence bigint, error text, superseded_by bigint, use_key text, use_most integer,
    use_per bigint, uses jsonb, arguments text, options text, result text, kept_until bigint, attempts jsonb
)
language sql stable
as $$
    select j.id, j.name, substr(j.pool, length(p_namespace) + 2), coalesce(substr(j.lane, length(p_namespace) + 2), ''),
           j.priority, interlock.job_state(j, p_namespace), j.attempt + (c.fence is not null)::integer, j.crashes,
           j.enqueued_at, j.due_at, c.claimed_at, null::bigint, null::bigint, coalesce(c.session, j.attempts -> -1 ->> 4),
           coalesce(c.host, j.attempts -> -1 ->> 5), coalesce(c.pid, (j.attempts -> -1 ->> 6)::integer),
           coalesce(c.program, j.attempts -> -1 ->> 7), coalesce(c.fence, j.fence), coalesce(j.parked, j.error), null::bigint, j.use_key,
           j.use_most, j.use_per, j.uses, j.arguments, j.options, null::text, null::bigint, j.attempts
    from interlock.job j
    left join lateral (
        select x.fence, x.claimed_at, w.session, w.host, w.pid, w.program
        from interlock.job_claimed x join interlock.job_crew w on w.id = x.crew
        where x.namespace = p_namespace and j.id = any (x.ids) limit 1
    ) c on true
    where j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
$$;

create function interlock.job_ended_views(p_namespace text, p_now bigint)
returns table (
    id bigint, name text, queue text, lane text, priority smallint, state text, attempt integer, crashes smallint,
    enqueued_at bigint, due_at bigint, claimed_at bigint, started_at bigint, finished_at bigint, session text, host text,
    pid integer, program text, fence bigint, error text, superseded_by bigint, use_key text, use_most integer,
    use_per bigint, uses jsonb, arguments text, options text, result text, kept_until bigint, attempts jsonb
)
language sql stable
as $$
    select h.id, h.name, substr(h.pool, length(p_namespace) + 2), coalesce(substr(h.lane, length(p_namespace) + 2), ''),
           h.priority, interlock.job_ended_state(h.state), h.attempt, h.crashes, h.enqueued_at, h.due_at, h.claimed_at,
           h.started_at, h.finished_at, coalesce(w.session, h.attempts -> -1 ->> 4),
           coalesce(w.host, h.attempts -> -1 ->> 5), coalesce(w.pid, (h.attempts -> -1 ->> 6)::integer),
           coalesce(w.program, h.attempts -> -1 ->> 7), h.fence, h.error, h.superseded_by, h.use_key, h.use_most, h.use_per,
           h.uses, h.arguments, h.options, r.result, h.kept_until, h.attempts
    from interlock.job_history h
    left join interlock.job_crew w on w.id = h.crew
    left join interlock.job_result r on r.id = h.id and r.kept_until > p_now
    where h.pool >= p_namespace || '/' and h.pool < p_namespace || '0'
$$;

-- The suspects of one group, of which p_half is one half, and all suspects that run: [[ids of the half, how many], the same
-- of the other half, [[session, host, pid, program, whether of this half, whether of this group, ids, how many]]]. Ids are
-- named up to 5, workers up to 20.
create function interlock.job_suspicion(p_namespace text, p_half bigint) returns jsonb
language sql stable
as $$
    select jsonb_build_array(mine.told, other.told, running.told)
    from (
        select jsonb_build_array(coalesce(jsonb_agg(j.id order by j.id) filter (where j.n <= 5), '[]'), count(*)) as told
        from (select x.id, row_number() over (order by x.id) as n from interlock.job x where x.half = p_half) j
    ) mine
    cross join (
        select jsonb_build_array(coalesce(jsonb_agg(j.id order by j.id) filter (where j.n <= 5), '[]'), count(*)) as told
        from (select x.id, row_number() over (order by x.id) as n from interlock.job x where x.half = (p_half # 1)) j
    ) other
    cross join (
        select coalesce(jsonb_agg(jsonb_build_array(
                   w.session, w.host, w.pid, w.program, r.half = p_half, r.half / 2 = p_half / 2, r.ids, r.count)
                   order by r.half = p_half desc, r.half / 2 = p_half / 2 desc, w.session), '[]') as told
        from (
            select c.crew, c.half, jsonb_agg(c.id order by c.id) filter (where c.n <= 5) as ids, count(*) as count
            from (
                select x.crew, j.half, j.id, row_number() over (partition by x.crew, j.half order by j.id) as n
                from interlock.job_claimed x
                cross join lateral unnest(x.ids) as o (id)
                join interlock.job j on j.id = o.id and j.half is not null
                where x.namespace = p_namespace
            ) c
            group by c.crew, c.half order by c.half / 2 = p_half / 2 desc, c.crew limit 20
        ) r
        join interlock.job_crew w on w.id = r.crew
    ) running
$$;

-- The heads of lanes that have something but are not known to claimers yet, with their sort keys.
create function interlock.job_fresh_heads(p_namespace text)
returns table (id bigint, pool text, sort bigint)
language sql stable
as $$
    select h.id, h.pool, interlock.job_sort(h.due_at, h.priority)
    from (
        select distinct s.lane from (
            select x.lane from interlock.job_signal x where x.namespace = p_namespace order by x.position limit 10000
        ) s
    ) l
    cross join lateral (
        select j.* from interlock.job j where j.lane = l.lane and j.position is not null order by j.position limit 1
    ) h
    where not exists (select from interlock.job_ready r where r.lane = l.lane)
      and interlock.job_state(h::interlock.job, p_namespace) = 'ready'
$$;
