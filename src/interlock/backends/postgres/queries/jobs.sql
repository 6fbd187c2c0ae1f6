-- name: ids
-- Draw consecutive job IDs.
select interlock.job_ids($1)

-- name: enqueue
-- Accept jobs.
select interlock.job_enqueue($1, row(
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27)::interlock.new_jobs, null, $28)

-- name: enqueue_again
-- Accept jobs that an earlier call may have stored.
select interlock.job_enqueue_again($1, row(
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27)::interlock.new_jobs, $28)

-- name: enqueue_keyed
-- Accept jobs of which some have keys, and return the holder of each job's key.
select interlock.job_enqueue_keyed($1, row(
    $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27)::interlock.new_jobs, $28, $29)

-- name: enqueue_in_transaction
-- Accept jobs on a caller's own connection. Null if it leads to another database than the app's. The parameters are cast
-- from text, because a caller's connection may encode JSON in its own way.
select e.ids, e.created from interlock.enqueue_jobs($1::text::json, $2::text, $3::text::float8, $4::text) e

-- name: fetch
-- Fetch jobs for a session. The last three columns belong to the whole fetch and are set in the first row only. Without a
-- job there is one row, and its other columns are null.
select j.id, j.name, j.queue, j.lane, j.fence, j.attempt, j.crashes, j.half, j.priority, j.enqueued_at, j.due_at,
       j.arguments, j.options, j.slots, j.paced, j.cause,
       case when j.expires_at is not null then (j.expires_at - interlock.micros(interlock.now_or($11))) / 1e6::float8 end,
       case when j.n > 1 then null else f.session_ended end as session_ended,
       case when j.n > 1 then null else f.recheck_in end as recheck_in,
       case when j.n > 1 then null else f.scan_from end as scan_from
from interlock.job_fetch($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) f
left join lateral interlock.job_fetched_rows($1, f.ids, f.fences) with ordinality as j (
    id, name, queue, lane, fence, attempt, crashes, half, priority, enqueued_at, due_at, arguments, options, slots, paced,
    cause, expires_at, n) on true

-- name: acknowledge
-- Acknowledge fetched jobs.
select refused, ready from interlock.job_acknowledge(
    $1, $2, row($3, $4, $5, $6, $7, $8, $9, $10, null)::interlock.acknowledgements, $11, $12)

-- name: acknowledge_followed
-- Acknowledge fetched jobs, and accept the jobs that follow them.
select refused, ready from interlock.job_acknowledge_followed(
    $1, $2, row($3, $4, $5, $6, $7, $8, $9, $10, null)::interlock.acknowledgements, $11, $12, row(
    $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32,
    $33, $34, $35, $36, $37, $38, $39)::interlock.new_jobs, $13)

-- name: locked
-- List jobs under these fences that have a row which another transaction has locked: the job's position in the
-- arrays, which row, and who locked it. A row's xmax is the transaction that locked it last; a running transaction
-- holds a lock on its own number.
with asked as materialized (
    select u.n, u.id, u.fence, j.lane, j.xmax as job_xmax
    from unnest($1::bigint[], $2::bigint[]) with ordinality as u (id, fence, n)
    left join interlock.job j on j.id = u.id
),
held as materialized (
    select a.n, 1 as rank, 'lane ' || substr(a.lane, strpos(a.lane, '/') + 1) as what, l.xmax as by
    from asked a join interlock.job_lane l on l.lane = a.lane
    union all
    select a.n, 2, 'job ' || a.id, a.job_xmax from asked a where a.job_xmax is not null
    union all
    select a.n, 3, 'fetch ' || a.fence, c.xmax from asked a join interlock.job_fetched c on c.fence = a.fence
)
select distinct on (h.n) h.n::integer, h.what, k.pid, coalesce(s.application_name, ''), coalesce(s.state, ''),
       extract(epoch from clock_timestamp() - s.xact_start)::float8
from held h
join pg_catalog.pg_locks k
  on k.locktype = 'transactionid' and k.transactionid = h.by and k.granted and k.mode = 'ExclusiveLock'
left join pg_catalog.pg_stat_activity s on s.pid = k.pid
where k.pid <> pg_backend_pid()
order by h.n, h.rank

-- name: return_unstarted
-- Return fetched jobs that were not started.
select returned, blocked from interlock.job_return_unstarted($1, $2, $3, $4, $5, $6)

-- name: rescue
-- Take jobs from sessions that have ended.
select id, name, session, crashes, quarantined, half from interlock.job_rescue($1, $2, $3, $4)

-- name: register_worker
-- Record which queues and jobs a session works on.
select interlock.job_register_worker($1, $2, $3, $4, $5, $6::jsonb, $7::jsonb)

-- name: report_started
-- Record which of a session's fetched jobs have started.
select interlock.job_report_started($1, $2, $3, $4)

-- name: append_logs
-- Append to the logs of fetched jobs, and list the reports whose fetches have ended.
select interlock.job_append_logs($1, row($2, $3, $4, $5, $6, $7, $8)::interlock.log_reports, row($9, $10, $11, $12, $13)::interlock.log_chunks, $14, $15, $16, $17, $18)

-- name: watch_end
-- Watch the end of jobs, and list those that have already ended.
select interlock.job_watch_end($1, $2, $3)

-- name: ended
-- List watched jobs that have ended, and forget them.
delete from interlock.job_watch where session = $2 and namespace = $1 and ended returning id

-- name: cancel
-- Cancel a job.
select interlock.job_cancel($1, $2, $3::jsonb, $4, $5)

-- name: retry
-- Retry a job.
select interlock.job_retry($1, $2, $3::jsonb, $4)

-- name: hold
-- Hold a lane.
select interlock.job_hold($1, $2, $3::jsonb, $4)

-- name: release
-- Release a lane.
select interlock.job_release($1, $2, $3::jsonb, $4)

-- name: pause
-- Pause a queue.
select interlock.queue_pause($1, $2, $3::jsonb, $4)

-- name: resume
-- Resume a queue.
select interlock.queue_resume($1, $2, $3::jsonb, $4)

-- name: prune
-- Remove history and results that were kept long enough.
select interlock.job_prune($1, $2, $3, $4)

-- name: dead_rows
-- List the tables that a fetch reads, whether this role may vacuum each, and its dead rows.
select c.relname::text,
       case when current_setting('server_version_num')::integer >= 170000 then has_table_privilege(c.oid, 'MAINTAIN')
            else pg_has_role(c.relowner, 'USAGE') end
from pg_class c
where c.relnamespace = 'interlock'::regnamespace and c.relname = any ($1::text[])
  and pg_stat_get_dead_tuples(c.oid) >= $2::bigint
order by c.relname
