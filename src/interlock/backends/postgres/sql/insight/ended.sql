-- Jobs that have ended, in short.
select interlock.micros(interlock.now_or($3)), h.id, h.name, substr(h.pool, length($1) + 2),
       coalesce(substr(h.lane, length($1) + 2), ''), h.priority, interlock.job_ended_state(h.state), h.attempt, h.crashes,
       h.enqueued_at, h.due_at, h.fetched_at, h.started_at, h.finished_at, coalesce(w.session, h.attempts -> -1 ->> 4),
       coalesce(w.host, h.attempts -> -1 ->> 5), coalesce(w.pid, (h.attempts -> -1 ->> 6)::integer),
       coalesce(w.program, h.attempts -> -1 ->> 7), h.fence, h.error, h.superseded_by, h.use_key, h.use_most, h.use_per,
       h.uses, '', h.options, null::text, h.kept_until,
       case when h.attempts is not null then jsonb_build_array(h.attempts -> -1) end
from interlock.job_history h
left join interlock.job_session w on w.id = h.crew
where h.id = any ($2) and h.pool >= $1 || '/' and h.pool < $1 || '0'
