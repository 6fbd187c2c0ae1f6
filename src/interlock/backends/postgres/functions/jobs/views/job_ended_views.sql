-- Jobs that have ended, as views. The columns are the same as those of job_open_views.
create or replace function interlock.job_ended_views(p_namespace text, p_now bigint)
returns table (
    id bigint, name text, queue text, lane text, priority smallint, state text, attempt integer, crashes smallint,
    enqueued_at bigint, due_at bigint, fetched_at bigint, started_at bigint, finished_at bigint, session text, host text,
    pid integer, program text, fence bigint, error text, superseded_by bigint, use_key text, use_max_count integer,
    use_per bigint, uses jsonb, arguments text, options text, result text, kept_until bigint, attempts jsonb,
    cause text
)
language sql stable
as $$
    select h.id, h.name, substr(h.pool, length(p_namespace) + 2), coalesce(substr(h.lane, length(p_namespace) + 2), ''),
           h.priority, interlock.job_ended_state(h.state), h.attempt, h.crashes, h.enqueued_at, h.due_at, h.fetched_at,
           h.started_at, h.finished_at, coalesce(w.session, h.attempts -> -1 ->> 4),
           coalesce(w.host, h.attempts -> -1 ->> 5), coalesce(w.pid, (h.attempts -> -1 ->> 6)::integer),
           coalesce(w.program, h.attempts -> -1 ->> 7), h.fence, h.error, h.superseded_by, h.use_key, h.use_max_count, h.use_per,
           h.uses, h.arguments, h.options, r.result, h.kept_until, h.attempts,
           coalesce(h.cause, '')
    from interlock.job_history h
    left join interlock.job_session w on w.id = h.session_id
    left join interlock.job_result r on r.id = h.id and r.kept_until > p_now
    where h.pool >= p_namespace || '/' and h.pool < p_namespace || '0'
$$;
