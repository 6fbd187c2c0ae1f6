-- Unfinished jobs, as views. The columns are the same as those of job_ended_views.
create or replace function interlock.job_open_views(p_namespace text)
returns table (
    id bigint, name text, queue text, lane text, priority smallint, state text, attempt integer, crashes smallint,
    enqueued_at bigint, due_at bigint, fetched_at bigint, started_at bigint, finished_at bigint, session text, host text,
    pid integer, program text, fence bigint, error text, superseded_by bigint, use_key text, use_max_count integer,
    use_per bigint, uses jsonb, arguments text, options text, result text, kept_until bigint, attempts jsonb,
    cause text
)
language sql stable
as $$
    select j.id, j.name, substr(j.pool, length(p_namespace) + 2), coalesce(substr(j.lane, length(p_namespace) + 2), ''),
           j.priority, interlock.job_state(j, p_namespace), j.attempt + (c.fence is not null)::integer, j.crashes,
           j.enqueued_at, j.due_at, c.fetched_at, null::bigint, null::bigint, coalesce(c.session, j.attempts -> -1 ->> 4),
           coalesce(c.host, j.attempts -> -1 ->> 5), coalesce(c.pid, (j.attempts -> -1 ->> 6)::integer),
           coalesce(c.program, j.attempts -> -1 ->> 7), coalesce(c.fence, j.fence), coalesce(j.parked, j.error), null::bigint, j.use_key,
           j.use_max_count, j.use_per, j.uses, j.arguments, j.options, null::text, null::bigint, j.attempts,
           coalesce(j.cause, '')
    from interlock.job j
    left join lateral (
        select x.fence, x.fetched_at, w.session, w.host, w.pid, w.program
        from interlock.job_fetched x join interlock.job_session w on w.id = x.session_id
        where x.namespace = p_namespace and j.id = any (x.ids) limit 1
    ) c on true
    where j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
$$;
