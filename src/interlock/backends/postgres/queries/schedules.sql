-- name: get
-- Read the time and one schedule.
select interlock.micros(interlock.now_or($3)), (
    select interlock.schedule_view(s, $3) from interlock.schedule s where s.namespace = $1 and s.name = $2)

-- name: list_all
-- Read the time and all schedules by name.
select interlock.micros(interlock.now_or($3)), s.view
from (select 1) as one
left join lateral (
    select interlock.schedule_view(x, $3) as view, x.name from interlock.schedule x
    where x.namespace = $1 and x.name > $4 order by x.name limit $2
) s on true
order by s.name

-- name: due
-- Read the time and the active schedules that a process can fire, the earliest first; those that are due in full.
select t.now, s.next_at, s.view
from (select interlock.micros(interlock.now_or($6)) as now offset 0) t
left join lateral (
    select x.next_at, case when x.next_at <= t.now then interlock.schedule_view(x, $6) end as view
    from interlock.schedule x
    where x.namespace = $1 and x.state = 'active' and x.next_at is not null
      and (x.origin = 'code' and x.name = any ($3::text[]) or x.origin <> 'code' and x.job = any ($2::text[]))
      and x.name <> all ($4::text[])
    order by x.next_at limit $5
) s on true
order by s.next_at

-- name: save
-- Create or replace a schedule.
select answer, schedule from interlock.schedule_save($1, $2, $3, $4::jsonb, $5, $6, $7, $8::jsonb, $9, $10)

-- name: set_state
-- Change the state of a schedule.
select answer, schedule from interlock.schedule_set_state($1, $2, $3, $4, $5::jsonb, $6, $7, $8)

-- name: delete
-- Remove a schedule.
select answer, schedule from interlock.schedule_delete($1, $2, $3::jsonb, $4, $5)

-- name: declare
-- Record what the code of a process declares.
select interlock.schedule_declare($1, $2, $3::jsonb, $4::jsonb, $5)

-- name: fire
-- Do one step of a schedule. The fields of its jobs follow the other parameters.
select won, enqueued from interlock.schedule_fire(
    $1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb, $10::jsonb, $11, row(/* jobs */)::interlock.new_jobs, $12)

-- name: enqueue
-- Enqueue jobs through a schedule. The fields of the jobs follow the other parameters.
select interlock.schedule_enqueue(
    $1, $2, $3, $4::jsonb, $5, $6::jsonb, row(/* jobs */)::interlock.new_jobs, $7)

-- name: set_reported
-- Record that an application was notified that a schedule is off.
update interlock.schedule s set reported = true where s.namespace = $1 and s.name = $2 and s.version = $3

-- name: firings
-- List the last firings of a schedule, newest first.
select f.number, f.at, f.fired_at, f.kind, f.outcome, f.job, f.count
from interlock.schedule_firing f where f.namespace = $1 and f.name = $2 order by f.number desc limit $3
