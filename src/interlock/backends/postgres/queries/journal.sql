-- name: add
-- Add entries that are not part of a change in this store.
select interlock.journal_record(
    $1, u.attribution::jsonb, u.action, u.key, u.before::json, u.after::json, u.from_version, u.to_version, $9)
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[]) with ordinality as u (
    attribution, action, key, before, after, from_version, to_version, n)
order by u.n

-- name: get
-- One entry.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and id = $2

-- name: list_any
-- Entries newest first, behind a position: the entry at $4 with ID $5.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1
  and at >= $2 and at < $3 and (at, id) < ($4, $5)
  and ($6 = '' or action = $6) and ($7 = '' or subject_kind = $7)
  and ($8 = '' or subject_key = $8) and ($9 = '' or actor = $9)
  and ($10::bigint is null or cause_job = $10) and ($11::bigint is null or cause_event = $11)
order by at desc, id desc
limit $12

-- name: list_actor
-- The same for the entries of one actor.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and actor = $9
  and at >= $2 and at < $3 and (at, id) < ($4, $5)
  and ($6 = '' or action = $6) and ($7 = '' or subject_kind = $7)
  and ($8 = '' or subject_key = $8) and ($10::bigint is null or cause_job = $10)
  and ($11::bigint is null or cause_event = $11)
order by at desc, id desc
limit $12

-- name: list_subject
-- The same for the entries about one subject.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and subject_kind = $7 and subject_key = $8
  and at >= $2 and at < $3 and (at, id) < ($4, $5)
  and ($6 = '' or action = $6) and ($9 = '' or actor = $9)
  and ($10::bigint is null or cause_job = $10) and ($11::bigint is null or cause_event = $11)
order by at desc, id desc
limit $12

-- name: list_cause_job
-- The same for the entries of operations that one job performed.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and cause_job = $10
  and at >= $2 and at < $3 and (at, id) < ($4, $5)
  and ($6 = '' or action = $6) and ($7 = '' or subject_kind = $7)
  and ($8 = '' or subject_key = $8) and ($9 = '' or actor = $9)
  and ($11::bigint is null or cause_event = $11)
order by at desc, id desc
limit $12

-- name: list_cause_event
-- The same for the entries of operations that jobs of one event performed.
select id, at, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text, after::text,
       cause_event, cause_job, cause_fence, batch
from interlock.journal
where namespace = $1 and cause_event = $11
  and at >= $2 and at < $3 and (at, id) < ($4, $5)
  and ($6 = '' or action = $6) and ($7 = '' or subject_kind = $7)
  and ($8 = '' or subject_key = $8) and ($9 = '' or actor = $9)
  and ($10::bigint is null or cause_job = $10)
order by at desc, id desc
limit $12

-- name: prune
-- Remove sealed batches that are old enough.
select interlock.journal_prune($1, $2, $3, $4)

-- name: unsealed
-- Entries without a batch, the smallest IDs first.
select id, at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before::text,
       after::text, cause_event, cause_job, cause_fence
from interlock.journal_unsealed($1, $2, $3)

-- name: head
-- The newest seal, without its leaves, and the time.
select n.now, s.batch, s.previous, s.sealed_at, s.size, s.first_id, s.last_id, s.newest_at, s.root, s.hash,
       null::bytea, s.pruned_at
from (select interlock.micros(interlock.now_or($2)) as now) n
left join lateral (
    select * from interlock.journal_seal x where x.namespace = $1 order by x.batch desc limit 1
) s on true

-- name: seal
-- Seal a batch.
select interlock.journal_seal($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- name: batches
-- Batches behind number $2, of up to $3 entries together, each with what is stored under its number. One statement, so
-- that seals and entries are of one moment. Only the first row of a batch has its leaves.
with sized as (
    select s.*, sum(s.size) over (order by s.batch) - s.size as before_it
    from interlock.journal_seal s where s.namespace = $1 and s.batch > $2 order by s.batch limit 1000
)
select s.batch, s.previous, s.sealed_at, s.size, s.first_id, s.last_id, s.newest_at, s.root, s.hash,
       case when row_number() over (partition by s.batch order by j.id) = 1 then s.leaves end, s.pruned_at,
       j.id, j.at, j.namespace, j.actor, j.reason, j.action, j.subject_kind, j.subject_key, j.from_version,
       j.to_version, j.before::text, j.after::text, j.cause_event, j.cause_job, j.cause_fence
from sized s left join interlock.journal j on j.namespace = s.namespace and j.batch = s.batch
where s.before_it < $3
order by s.batch, j.id

-- name: strays
-- Entries whose batch has no seal.
select j.batch, j.id from interlock.journal j
where j.namespace = $1 and j.batch is not null
  and not exists (select from interlock.journal_seal s where s.namespace = j.namespace and s.batch = j.batch)
order by j.batch, j.id limit $2

-- name: status
-- How many entries are unsealed, since when, and how many batches are pruned.
select
    (select count(*) from (
        select from interlock.journal j where j.namespace = $1 and j.batch is null limit 100000) x),
    (select j.at from interlock.journal j where j.namespace = $1 and j.batch is null order by j.batch, j.id limit 1),
    coalesce(
        (select min(s.batch) - 1 from interlock.journal_seal s where s.namespace = $1 and s.pruned_at is null),
        (select max(s.batch) from interlock.journal_seal s where s.namespace = $1), 0)

-- name: verification
-- The last verification.
select at, batches, entries, problems, problem, head from interlock.journal_verification where namespace = $1

-- name: verified
-- Keep the result of a verification.
insert into interlock.journal_verification as v (namespace, at, batches, entries, problems, problem, head)
values ($1, interlock.micros(interlock.now_or($2)), $3, $4, $5, $6, $7)
on conflict (namespace) do update
set at = excluded.at, batches = excluded.batches, entries = excluded.entries, problems = excluded.problems,
    problem = excluded.problem, head = excluded.head
