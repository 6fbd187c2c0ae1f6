-- name: add
-- Add an entry.
insert into interlock_journal (
    at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after,
    cause_event, cause_job, cause_fence)
values (
    :at, :namespace, :actor, :reason, :action, :subject_kind, :subject_key, :from_version, :to_version, :before, :after,
    :cause_event, :cause_job, :cause_fence)
returning id

-- name: get
-- One entry.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and id = :id

-- name: list_any
-- Entries newest first, behind a position: the entry at :before_at with ID :before_id.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace
  and at >= :since and at < :until and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
  and (:subject_key = '' or subject_key = :subject_key) and (:actor = '' or actor = :actor)
  and (:cause_job is null or cause_job = :cause_job) and (:cause_event is null or cause_event = :cause_event)
order by at desc, id desc
limit :limit

-- name: list_actor
-- The same for the entries of one actor.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and actor = :actor
  and at >= :since and at < :until and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
  and (:subject_key = '' or subject_key = :subject_key) and (:cause_job is null or cause_job = :cause_job)
  and (:cause_event is null or cause_event = :cause_event)
order by at desc, id desc
limit :limit

-- name: list_subject
-- The same for the entries about one subject.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and subject_kind = :subject_kind and subject_key = :subject_key
  and at >= :since and at < :until and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:actor = '' or actor = :actor)
  and (:cause_job is null or cause_job = :cause_job) and (:cause_event is null or cause_event = :cause_event)
order by at desc, id desc
limit :limit

-- name: list_cause_job
-- The same for the entries of operations that one job performed.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and cause_job = :cause_job
  and at >= :since and at < :until and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
  and (:subject_key = '' or subject_key = :subject_key) and (:actor = '' or actor = :actor)
  and (:cause_event is null or cause_event = :cause_event)
order by at desc, id desc
limit :limit

-- name: list_cause_event
-- The same for the entries of operations that jobs of one event performed.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and cause_event = :cause_event
  and at >= :since and at < :until and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
  and (:subject_key = '' or subject_key = :subject_key) and (:actor = '' or actor = :actor)
  and (:cause_job is null or cause_job = :cause_job)
order by at desc, id desc
limit :limit

-- name: unsealed
-- Entries without a batch, the smallest IDs first.
select id, at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after,
       cause_event, cause_job, cause_fence
from interlock_journal
where namespace = :namespace and batch is null and id > :after
order by batch, id limit :limit

-- name: head
-- The newest seal, without its leaves.
select batch, previous, sealed_at, size, first_id, last_id, newest_at, root, hash, null, pruned_at
from interlock_journal_seal where namespace = :namespace order by batch desc limit 1

-- name: add_seal
-- Add a seal, unless the batch is already sealed.
insert into interlock_journal_seal (
    namespace, batch, previous, sealed_at, size, first_id, last_id, newest_at, root, hash, leaves)
values (
    :namespace, :batch, :previous, :sealed_at, :size, :first_id, :last_id, :newest_at, :root, :hash, :leaves)
on conflict (namespace, batch) do nothing

-- name: set_batch
-- Note the batch of its entries.
update interlock_journal set batch = :batch
where namespace = :namespace and batch is null and id in (select value from json_each(:ids))

-- name: seals
-- Seals behind a number, of batches with up to so many entries together, but at least one.
with sized as (
    select s.batch, sum(s.size) over (order by s.batch) - s.size as before_it
    from interlock_journal_seal s where s.namespace = :namespace and s.batch > :after order by s.batch limit 1000
)
select s.batch, s.previous, s.sealed_at, s.size, s.first_id, s.last_id, s.newest_at, s.root, s.hash, s.leaves,
       s.pruned_at
from sized z join interlock_journal_seal s on s.namespace = :namespace and s.batch = z.batch
where z.before_it < :limit
order by s.batch

-- name: entries
-- The entries that are stored under the numbers of some batches.
select batch, id, at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before,
       after, cause_event, cause_job, cause_fence
from interlock_journal
where namespace = :namespace and batch between :first and :last
order by batch, id

-- name: strays
-- Entries whose batch has no seal.
select j.batch, j.id from interlock_journal j
where j.namespace = :namespace and j.batch is not null
  and not exists (select 1 from interlock_journal_seal s where s.namespace = j.namespace and s.batch = j.batch)
order by j.batch, j.id limit :limit

-- name: status
-- How many entries are unsealed, since when, and how many batches are pruned.
select
    (select count(*) from (
        select 1 from interlock_journal j where j.namespace = :namespace and j.batch is null limit 100000)),
    (select j.at from interlock_journal j where j.namespace = :namespace and j.batch is null
     order by j.batch, j.id limit 1),
    coalesce(
        (select min(s.batch) - 1 from interlock_journal_seal s where s.namespace = :namespace and s.pruned_at is null),
        (select max(s.batch) from interlock_journal_seal s where s.namespace = :namespace), 0)

-- name: verification
-- The last verification.
select at, batches, entries, problems, problem, head from interlock_journal_verification where namespace = :namespace

-- name: verified
-- Keep the result of a verification.
insert into interlock_journal_verification (namespace, at, batches, entries, problems, problem, head)
values (:namespace, :at, :batches, :entries, :problems, :problem, :head)
on conflict (namespace) do update
set at = excluded.at, batches = excluded.batches, entries = excluded.entries, problems = excluded.problems,
    problem = excluded.problem, head = excluded.head

-- name: prunable
-- The batches that can be pruned: from the oldest kept one on, as long as each is old enough and they have up to so many
-- entries together, but at least one batch. Null if the oldest kept batch is not old enough.
with kept as (
    select s.batch, sum(s.size) over (order by s.batch) as total, max(s.newest_at) over (order by s.batch) as newest,
           row_number() over (order by s.batch) as number
    from interlock_journal_seal s where s.namespace = :namespace and s.pruned_at is null order by s.batch limit 1000
)
select min(k.batch), max(k.batch) from kept k
where k.newest < :before and (k.total <= :limit or k.number = 1)

-- name: prune_entries
-- Remove the entries of batches.
delete from interlock_journal where namespace = :namespace and batch between :first and :last

-- name: prune_seals
-- Note that the entries of batches are gone.
update interlock_journal_seal set leaves = null, pruned_at = :now
where namespace = :namespace and batch between :first and :last and pruned_at is null
