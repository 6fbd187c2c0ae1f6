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
-- Entries newest first, behind a position.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and at >= :since and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
order by at desc, id desc
limit :limit

-- name: list_actor
-- The same for the entries of one actor.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and actor = :actor and at >= :since and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:subject_kind = '' or subject_kind = :subject_kind)
order by at desc, id desc
limit :limit

-- name: list_subject
-- The same for the entries about one subject.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after, cause_event,
       cause_job, cause_fence, batch
from interlock_journal
where namespace = :namespace and subject_kind = :subject_kind and subject_key = :subject_key
  and at >= :since and (at, id) < (:before_at, :before_id)
  and (:action = '' or action = :action) and (:actor = '' or actor = :actor)
order by at desc, id desc
limit :limit

-- name: prune
-- Remove a bounded number of entries that are old enough.
delete from interlock_journal where id in (
    select id from interlock_journal where namespace = :namespace and at < :before order by at, id limit :limit)
