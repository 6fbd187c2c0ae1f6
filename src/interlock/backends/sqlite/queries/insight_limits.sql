-- name: limit_keys
-- List the next keys that jobs use, wait for or recently started under. Each step finds one key, however many jobs
-- it has.
with recursive known (key) as (
    select (select min(key) from (
        select (select min(key) from interlock_job_use where namespace = :namespace and key > :after) as key
        union all select (select min(key) from interlock_job_limit_wait where namespace = :namespace and key > :after)
        union all select (select min(key) from interlock_job_limit_start where namespace = :namespace and key > :after)))
    union all
    select (select min(key) from (
        select (select min(key) from interlock_job_use where namespace = :namespace and key > known.key) as key
        union all select (select min(key) from interlock_job_limit_wait where namespace = :namespace and key > known.key)
        union all select (select min(key) from interlock_job_limit_start where namespace = :namespace and key > known.key)))
    from known
    where known.key is not null
)
select key from known where key is not null limit :scan

-- name: limit_used
-- Count the jobs that use a key, up to a bound, with its capacity and period.
select count(*), min(max_count), max(per)
from (select max_count, per from interlock_job_use where namespace = :namespace and key = :key limit :limit)

-- name: limit_holders
-- List the jobs that occupy a slot of a key.
select j.id, k.name, c.fetched_at, null, w.session, w.host, w.pid, w.program
from interlock_job_use u
cross join interlock_job j on j.id = u.id
join interlock_job_kind k on k.id = j.kind
join interlock_job_fetched c on c.id = u.id
left join interlock_job_worker w on w.id = c.worker
where u.namespace = :namespace and u.key = :key and u.per = 0
order by c.fetched_at, j.id
limit :limit

-- name: limit_started
-- Count the starts that still count on a key, up to a bound.
select count(*) from (
    select 1 from interlock_job_limit_start where namespace = :namespace and key = :key and counts_until > :now limit :limit)

-- name: limit_starts
-- List the starts that still count on a key, with their jobs and workers.
select t.id, coalesce(k.name, ''), t.at, t.counts_until, w.session, w.host, w.pid, w.program
from interlock_job_limit_start t
left join interlock_job_fetched c on c.id = t.id
left join interlock_job j on j.id = t.id
left join interlock_job_history h on h.id = t.id
left join interlock_job_kind k on k.id = coalesce(j.kind, h.kind)
left join interlock_job_worker w on w.id = coalesce(c.worker, h.worker)
where t.namespace = :namespace and t.key = :key and t.counts_until > :now
order by t.at, t.number
limit :limit

-- name: limit_waiting
-- Count the jobs that wait for a key, up to a bound.
select count(*) from (
    select 1 from interlock_job_limit_wait where namespace = :namespace and key = :key and not woken limit :limit)

-- name: limit_waiters
-- List the first jobs of one kind in a limit's queue.
select w.ticket, j.id, k.name, j.due_at
from interlock_job_limit_wait w
cross join interlock_job j on j.id = w.id
join interlock_job_kind k on k.id = j.kind
where w.namespace = :namespace and w.key = :key and w.kind = :kind and not w.woken
order by w.ticket
limit :limit

-- name: limit_of_waiter
-- Read the limits of a job that waits for a key.
select j.uses from interlock_job_limit_wait w cross join interlock_job j on j.id = w.id
where w.namespace = :namespace and w.key = :key limit 1

-- name: limit_waiters_ahead
-- Count the jobs before a ticket in a limit's queue. Each kind is a range of the index.
select count(*) from (
    select 1
    from interlock_job_kind k
    cross join interlock_job_limit_wait w on w.namespace = :namespace and w.key = :key and w.kind = k.id and w.ticket < :ticket
    where k.namespace = :namespace
    limit :limit)
