-- name: key_holder
-- Read the job that holds a key, and how long it keeps the key after its end.
select id, keep from interlock_job_key where namespace = :namespace and name = :name and key = :key

-- name: set_key
-- Give a key to a job.
insert into interlock_job_key (namespace, name, key, id, keep, check_at)
values (:namespace, :name, :key, :id, :keep, :now + :keep)
on conflict (namespace, name, key) do update set id = excluded.id, keep = excluded.keep, check_at = excluded.check_at

-- name: job_arguments
-- Read the arguments of a job, unfinished or not.
select arguments from interlock_job where id = :id
union all
select arguments from interlock_job_history where id = :id

-- name: finished_at
-- Read when a job ended: null if it is unfinished, no row if it is unknown.
select null from interlock_job where id = :id
union all
select finished_at from interlock_job_history where id = :id

-- name: existing_jobs
-- Select which of some jobs exist, unfinished or kept in the history.
select j.id
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
cross join interlock_job_kind k on k.id = j.kind and k.namespace = :namespace
union all
select h.id
from json_each(:ids) e
cross join interlock_job_history h on h.id = e.value
cross join interlock_job_kind k on k.id = h.kind and k.namespace = :namespace

-- name: add_after
-- Let a job wait for another.
insert into interlock_job_after (needs, id, if_failed) values (?, ?, ?) on conflict do nothing

-- name: add_after_signals
-- Signal that jobs wait for some others, which may have ended.
insert into interlock_job_after_signal (namespace, needs)
select :namespace, value from json_each(:ids) where true on conflict do nothing

-- name: add_expiry
-- Let a job expire.
insert into interlock_job_expiry (namespace, at, id) values (?, ?, ?)

-- name: any_after
-- Check whether any job waits for another.
select 1 from interlock_job_after where id > 0 limit 1

-- name: signal_ends
-- Signal the end of those of some jobs for which others wait.
insert into interlock_job_after_signal (namespace, needs)
select :namespace, e.value
from json_each(:ids) e
where exists (select 1 from interlock_job_after a where a.needs = e.value)
on conflict do nothing

-- name: after_signals
-- Select some jobs that have been signaled.
select needs from interlock_job_after_signal where namespace = :namespace limit :limit

-- name: is_unfinished
-- Check whether a job is unfinished.
select 1 from interlock_job where id = :id

-- name: delete_after_signal
-- Forget a signal.
delete from interlock_job_after_signal where namespace = :namespace and needs = :needs

-- name: needed_state
-- Read how a job has ended.
select state, superseded_by, coalesce(error, '') from interlock_job_history where id = :needs

-- name: waiting_jobs
-- Select some jobs that wait for one, and what they do if it failed; those that are parked for it only on request.
select id, if_failed from interlock_job_after where needs = :needs and (:failed_too or not failed) order by id limit :limit

-- name: delete_after
-- Let some jobs no longer wait for one.
delete from interlock_job_after where needs = :needs and id in (select value from json_each(:ids))

-- name: delete_all_after
-- Let jobs no longer wait for others.
delete from interlock_job_after where id in (select value from json_each(:ids))

-- name: delete_ended_after
-- Let a job no longer wait for others that have ended.
delete from interlock_job_after
where id = :id and not exists (select 1 from interlock_job j where j.id = interlock_job_after.needs)

-- name: replace_after
-- Let some jobs wait for the one that has superseded another.
insert into interlock_job_after (needs, id, if_failed)
select :superseded_by, id, if_failed from interlock_job_after
where needs = :needs and id in (select value from json_each(:ids))
on conflict do nothing

-- name: fail_after
-- Record that some jobs are parked because one failed.
update interlock_job_after set failed = 1 where needs = :needs and id in (select value from json_each(:ids))

-- name: park_waiting
-- Park jobs because one that they wait for failed.
update interlock_job set parked = :reason where id in (select value from json_each(:ids))

-- name: unpark_waiting
-- Let those of some jobs go on waiting that are parked for nothing that failed.
update interlock_job set parked = null
where id in (select value from json_each(:ids)) and parked is not null
  and not exists (select 1 from interlock_job_after a where a.id = interlock_job.id and a.failed)

-- name: unblocked
-- Select those of some jobs that wait for no other.
select j.id, j.kind, j.lane, j.due_at
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
where not exists (select 1 from interlock_job_after a where a.id = j.id)
order by j.id

-- name: make_due_now
-- Make jobs due that waited for others.
update interlock_job set due_at = :now, parked = null where id in (select value from json_each(:ids))

-- name: blocked
-- Check whether a job waits for others.
select 1 from interlock_job_after where id = :id limit 1

-- name: wait_again
-- Let a job wait again for those of some jobs that are unfinished.
insert into interlock_job_after (needs, id, if_failed)
select j.id, :id, :if_failed
from json_each(:needs) e
cross join interlock_job j on j.id = e.value
where true
on conflict do nothing

-- name: await_again
-- Record that jobs wait again for one that had failed, and return them.
update interlock_job_after set failed = 0 where needs = :needs and failed returning id

-- name: kinds_of_waiting
-- Select the kinds of some jobs that wait for others that were signalled.
select distinct j.kind
from interlock_job_after_signal s
cross join interlock_job_after a on a.needs = s.needs
cross join interlock_job j on j.id = a.id
where s.namespace = :namespace
limit 100

-- name: expired
-- Select jobs whose time is over: their kinds and lanes, and whether each can still expire.
select e.at, e.id, j.kind, j.lane,
       j.id is not null and j.expires_at = e.at
           and not exists (select 1 from interlock_job_fetched c where c.id = e.id)
from interlock_job_expiry e
left join interlock_job j on j.id = e.id
where e.namespace = :namespace and e.at <= :now
order by e.at, e.id
limit :limit

-- name: next_expiry
-- Read when the next job expires.
select at from interlock_job_expiry where namespace = :namespace order by at limit 1

-- name: delete_expiry
-- Forget when a job expires.
delete from interlock_job_expiry where namespace = ? and at = ? and id = ?

-- name: expire_again
-- Let jobs that have come back unstarted expire again.
insert into interlock_job_expiry (namespace, at, id)
select :namespace, j.expires_at, j.id
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
where j.expires_at is not null
on conflict do nothing

-- name: due_keys
-- Select keys to look at: their jobs, whether each is unfinished, and when it ended.
select k.name, k.key, k.keep, exists (select 1 from interlock_job j where j.id = k.id),
       (select h.finished_at from interlock_job_history h where h.id = k.id)
from interlock_job_key k
where k.namespace = :namespace and k.check_at <= :now
order by k.check_at
limit :limit

-- name: check_key_later
-- Look at a key again later.
update interlock_job_key set check_at = :check_at where namespace = :namespace and name = :name and key = :key

-- name: delete_key
-- Forget a key.
delete from interlock_job_key where namespace = :namespace and name = :name and key = :key
