-- name: get
-- Read one schedule.
select s.name, s.version, s.origin, s.state, s.job, s.arguments, s.cron, s.every, s.timezone, s.misfire, s.grace, s.overlap,
       s.jitter, s.template, s.anchor_at, s.next_at, s.created_at, s.updated_at, s.updated_by, s.state_at, s.state_by,
       s.state_reason, s.last_at, s.last_job, s.fired, s.skipped, s.missed, s.declaration, s.reported,
       (select count(*) from interlock_schedule_declaration d
        join interlock_session x on x.namespace = d.namespace and x.id = d.session and x.expires_at > :now_s
        where d.namespace = s.namespace and d.name = s.name)
from interlock_schedule s where s.namespace = :namespace and s.name = :name

-- name: list_all
-- List schedules by name.
select s.name, s.version, s.origin, s.state, s.job, s.arguments, s.cron, s.every, s.timezone, s.misfire, s.grace, s.overlap,
       s.jitter, s.template, s.anchor_at, s.next_at, s.created_at, s.updated_at, s.updated_by, s.state_at, s.state_by,
       s.state_reason, s.last_at, s.last_job, s.fired, s.skipped, s.missed, s.declaration, s.reported,
       (select count(*) from interlock_schedule_declaration d
        join interlock_session x on x.namespace = d.namespace and x.id = d.session and x.expires_at > :now_s
        where d.namespace = s.namespace and d.name = s.name)
from interlock_schedule s where s.namespace = :namespace and s.name > :after
order by s.name limit :limit

-- name: due
-- List the active schedules that some process can fire, the earliest first.
select s.name, s.next_at
from interlock_schedule s
where s.namespace = :namespace and s.state = 'active' and s.next_at is not null
  and (s.origin = 'code' and s.name in (select value from json_each(:declared))
       or s.origin <> 'code' and s.job in (select value from json_each(:jobs)))
  and s.name not in (select value from json_each(:but))
order by s.next_at limit :limit

-- name: edit_state
-- Read what an edit depends on.
select version, origin, edit, declaration, replaced from interlock_schedule where namespace = :namespace and name = :name

-- name: save
-- Create or replace a schedule. If the timing stays, so does the next time: it may be due, or have been fired just now.
insert into interlock_schedule (
    namespace, name, version, origin, state, job, arguments, cron, every, timezone, misfire, grace, overlap, jitter,
    template, anchor_at, next_at, created_at, updated_at, updated_by, state_at, state_by, state_reason, declaration,
    replaced, edit)
values (
    :namespace, :name, :version, :origin, :state, :job, :arguments, :cron, :every, :timezone, :misfire, :grace, :overlap,
    :jitter, :template, :anchor_at, :next_at, :now, :now, :by, :now, :by, :reason, :declaration, :replaced, :edit)
on conflict (namespace, name) do update set
    version = excluded.version, origin = excluded.origin, job = excluded.job, arguments = excluded.arguments,
    cron = excluded.cron, every = excluded.every, timezone = excluded.timezone, misfire = excluded.misfire,
    grace = excluded.grace, overlap = excluded.overlap, jitter = excluded.jitter, template = excluded.template,
    anchor_at = excluded.anchor_at,
    next_at = case
        when state <> 'paused' and (cron, every, timezone) = (excluded.cron, excluded.every, excluded.timezone)
        then coalesce(next_at, excluded.next_at)
        else excluded.next_at
    end,
    updated_at = excluded.updated_at,
    updated_by = excluded.updated_by, declaration = excluded.declaration, replaced = excluded.replaced,
    edit = excluded.edit, reported = 0,
    state_at = case when excluded.state = state then state_at else excluded.state_at end,
    state_by = case when excluded.state = state then state_by else excluded.state_by end,
    state_reason = case when excluded.state = state then state_reason else excluded.state_reason end,
    state = excluded.state

-- name: set_state
-- Change the state of a schedule.
update interlock_schedule
set version = :version, state = :state, state_at = :now, state_by = :by, state_reason = :reason, reported = 0,
    next_at = coalesce(:next_at, next_at)
where namespace = :namespace and name = :name

-- name: delete_schedule
-- Remove a schedule.
delete from interlock_schedule where namespace = :namespace and name = :name

-- name: delete_firings
-- Remove the firings of a schedule.
delete from interlock_schedule_firing where namespace = :namespace and name = :name

-- name: delete_dead_declarations
-- Remove what processes declared that have ended.
delete from interlock_schedule_declaration
where namespace = :namespace
  and not exists (
      select 1 from interlock_session x
      where x.namespace = interlock_schedule_declaration.namespace and x.id = interlock_schedule_declaration.session
        and x.expires_at > :now_s)

-- name: declare
-- Record what a process declares.
insert into interlock_schedule_declaration (namespace, name, session, fingerprint)
values (:namespace, :name, :session, :fingerprint)
on conflict (namespace, name, session) do update set fingerprint = excluded.fingerprint

-- name: still_declared
-- Check whether a live process declares a schedule in this way.
select 1 from interlock_schedule_declaration d
join interlock_session x on x.namespace = d.namespace and x.id = d.session and x.expires_at > :now_s
where d.namespace = :namespace and d.name = :name and d.fingerprint = :fingerprint
limit 1

-- name: next_at
-- Read when a schedule fires next, in this version.
select next_at, last_job, firings from interlock_schedule
where namespace = :namespace and name = :name and version = :version and state = 'active'

-- name: unfinished
-- Check whether a job has not ended.
select 1 from interlock_job where id = :id

-- name: set_fired
-- Record a step of a schedule.
update interlock_schedule
set next_at = :next_at, last_at = coalesce(:last_at, last_at), last_job = coalesce(:last_job, last_job),
    fired = fired + :fired, skipped = skipped + :skipped, missed = missed + :missed, firings = :firings
where namespace = :namespace and name = :name

-- name: add_firing
-- Add a firing.
insert into interlock_schedule_firing (namespace, name, number, at, fired_at, kind, outcome, job, count)
values (:namespace, :name, :number, :at, :now, :kind, :outcome, :job, :count)

-- name: trim_firings
-- Remove the oldest firings of a schedule.
delete from interlock_schedule_firing where namespace = :namespace and name = :name and number <= :number

-- name: firing_of_job
-- Check whether a schedule has enqueued a job.
select 1 from interlock_schedule_firing where namespace = :namespace and name = :name and job = :job

-- name: last_firing
-- Read what enqueuing through a schedule depends on.
select firings from interlock_schedule where namespace = :namespace and name = :name

-- name: set_enqueued
-- Record jobs that a person enqueued through a schedule.
update interlock_schedule set last_job = :last_job, fired = fired + :fired, firings = :firings
where namespace = :namespace and name = :name

-- name: set_reported
-- Record that an application was notified that a schedule is off.
update interlock_schedule set reported = 1 where namespace = :namespace and name = :name and version = :version

-- name: firings
-- List the last firings of a schedule, newest first.
select number, at, fired_at, kind, outcome, job, count from interlock_schedule_firing
where namespace = :namespace and name = :name order by number desc limit :limit
