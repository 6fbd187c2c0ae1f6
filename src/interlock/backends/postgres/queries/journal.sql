-- name: add
-- Add the entry of a change that is made in another store.
select interlock.journal_record($1, $2::jsonb, $3, $4, $5::json, $6::json, $7, $8, $9)

-- name: get
-- One entry.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and id = $2

-- name: list_any
-- Entries newest first, behind a position: $2 since, $3 and $4 time and ID of the entry to continue behind, $5 action.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and at >= $2 and (at, id) < ($3, $4) and ($5 = '' or action = $5)
  and ($6 = '' or subject_kind = $6)
order by at desc, id desc
limit $7

-- name: list_actor
-- The same for the entries of one actor: $8.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and actor = $8 and at >= $2 and (at, id) < ($3, $4) and ($5 = '' or action = $5)
  and ($6 = '' or subject_kind = $6)
order by at desc, id desc
limit $7

-- name: list_subject
-- The same for the entries about one subject: kind $6 and key $9, and actor $8 unless it is empty.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and subject_kind = $6 and subject_key = $9 and at >= $2 and (at, id) < ($3, $4)
  and ($5 = '' or action = $5) and ($8 = '' or actor = $8)
order by at desc, id desc
limit $7

-- name: prune
-- Remove entries that are old enough.
select interlock.journal_prune($1, $2, $3, $4)
