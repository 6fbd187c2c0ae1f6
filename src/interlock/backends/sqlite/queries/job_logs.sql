-- name: fetches_in_force
-- Select fetched jobs with their fences and what they have reported so far, if anything.
select c.id, c.fence, l.fence, l.report, l.lines, l.kept_lines, l.kept_bytes
from json_each(:ids) e
cross join interlock_job_fetched c on c.id = e.value
cross join interlock_job_worker w on w.id = c.worker and w.namespace = :namespace
left join interlock_job_log l on l.id = c.id

-- name: set_log
-- Store what a job has reported. A new fetch begins without progress.
insert into interlock_job_log (
    namespace, id, fence, attempt, report, lines, kept_lines, kept_bytes, progress, message, progress_at)
values (:namespace, :id, :fence, :attempt, :report, :lines, :kept_lines, :kept_bytes, :progress, :message, :progress_at)
on conflict (id) do update
set attempt = excluded.attempt, report = excluded.report, lines = excluded.lines, kept_lines = excluded.kept_lines,
    kept_bytes = excluded.kept_bytes, fence = excluded.fence,
    progress = case when excluded.progress_at is not null or excluded.fence > fence then excluded.progress else progress end,
    message = case when excluded.progress_at is not null or excluded.fence > fence then excluded.message else message end,
    progress_at = case when excluded.progress_at is not null or excluded.fence > fence then excluded.progress_at else progress_at end

-- name: add_chunk
-- Add a chunk of lines to a log.
insert into interlock_job_log_chunk (id, first, lines, bytes, head, attempt, fence, content) values (?, ?, ?, ?, ?, ?, ?, ?)

-- name: droppable_chunks
-- Select the chunks of a log that may be dropped, the oldest first; the newest is not among them.
select first, lines, bytes from interlock_job_log_chunk
where id = :id and not head and first < (select max(first) from interlock_job_log_chunk where id = :id)
order by first

-- name: drop_chunks
-- Drop the chunks of a log up to a line, except its head.
delete from interlock_job_log_chunk where id = :id and not head and first <= :last

-- name: delete_logs
-- Delete logs.
delete from interlock_job_log where id in (select value from json_each(:ids))

-- name: delete_chunks
-- Delete the lines of logs.
delete from interlock_job_log_chunk where id in (select value from json_each(:ids))

-- name: log_statuses
-- Select what jobs have reported, without their lines.
select l.id, l.attempt, l.fence, l.lines, l.kept_lines, l.progress, l.message, l.progress_at
from json_each(:ids) e
cross join interlock_job_log l on l.id = e.value and l.namespace = :namespace

-- name: log_chunks
-- Select chunks of a log from the one that has the line after a number.
select c.first, c.attempt, c.fence, c.content
from interlock_job_log l
cross join interlock_job_log_chunk c on c.id = l.id and c.first + c.lines > :after + 1
where l.id = :id and l.namespace = :namespace
order by c.first limit :limit
