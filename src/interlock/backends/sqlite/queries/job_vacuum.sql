-- name: register_worker
-- Register a session's worker: its queues, handlers, runners and handler versions.
insert into interlock_job_worker
    (namespace, session, host, pid, program, queues, names, runners, handler_versions, queue_runners)
select namespace, id, host, pid, program, :queues, :names, :runners, :handler_versions, :queue_runners
from interlock_session
where namespace = :namespace and id = :session and expires_at > :now_s
on conflict (namespace, session) do update
set queues = excluded.queues, names = excluded.names, runners = excluded.runners, handler_versions = excluded.handler_versions,
    queue_runners = excluded.queue_runners

-- name: mark_started
-- Record that a worker has started a job that it fetched.
update interlock_job_fetched set started = 1
where id = ? and fence = ? and worker = (select id from interlock_job_worker where namespace = ? and session = ?)

-- name: add_watches
-- Remember that a session waits for a job to end.
insert or ignore into interlock_job_watch (namespace, session, id) values (?, ?, ?)

-- name: delete_watches
-- Forget ended jobs that a session waited for.
delete from interlock_job_watch
where namespace = :namespace and session = :session
  and not exists (select 1 from interlock_job j where j.id = interlock_job_watch.id)

-- name: unfinished
-- Select which of some jobs are unfinished.
select j.id
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
cross join interlock_job_kind k on k.id = j.kind and k.namespace = :namespace

-- name: old_history
-- Select jobs of a kind that ended before a time.
select id from interlock_job_history where kind = :kind and finished_at <= :before order by finished_at limit :limit

-- name: delete_history
-- Delete jobs from the history.
delete from interlock_job_history where id in (select value from json_each(:ids))

-- name: old_results
-- Select results whose retention has ended.
select id from interlock_job_result where kept_until <= :now order by kept_until limit :limit

-- name: delete_results
-- Delete results.
delete from interlock_job_result where id in (select value from json_each(:ids))

-- name: delete_expired_starts
-- Delete starts that no longer count, a bounded number at a time.
delete from interlock_job_limit_start
where (namespace, key, at, number) in (
    select namespace, key, at, number from interlock_job_limit_start where counts_until <= :now order by counts_until limit :limit)

-- name: delete_resubmitted
-- Forget which jobs were enqueued a second time before a time.
delete from interlock_job_resubmitted where at <= :before

-- name: delete_workers
-- Delete workers that ended before a time and have no fetched jobs.
delete from interlock_job_worker
where namespace = :namespace and ended_at <= :before
  and not exists (select 1 from interlock_job_fetched c where c.worker = interlock_job_worker.id)
