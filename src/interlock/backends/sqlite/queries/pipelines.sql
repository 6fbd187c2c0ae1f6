-- name: fetch_in_force
-- Check that a fetch of a job is in force.
select 1 from interlock_job_fetched where id = :id and fence = :fence

-- name: last_checkpoint
-- Read the number and the answer of the last checkpoint of a run.
select fence, step, version, written_at from interlock_pipeline_run where id = :id

-- name: save_run
-- Store the progress of a run.
insert into interlock_pipeline_run (
    id, namespace, pipeline, kind, record, uid, mode, state, names, fence, step, version, written_at, started_at, ended_at,
    error)
values (
    :id, :namespace, :pipeline, :kind, :record, :uid, :mode, :state, :names, :fence, :step, :version, :written_at, :now,
    case when :ended then :now end, :error)
on conflict (id) do update set
    uid = excluded.uid, mode = excluded.mode, state = excluded.state, fence = excluded.fence, step = excluded.step,
    version = excluded.version, written_at = excluded.written_at, ended_at = excluded.ended_at, error = excluded.error

-- name: save_stage
-- Store the progress of a stage.
insert into interlock_pipeline_stage (run, name, position, state, attempt, started_at, ended_at, error)
values (:id, :stage, :position, :state, :attempt, :now, case when :ended then :now end, :error)
on conflict (run, name) do update set
    position = excluded.position, state = excluded.state, attempt = excluded.attempt, ended_at = excluded.ended_at,
    error = excluded.error,
    started_at = case when excluded.ended_at is null then excluded.started_at else interlock_pipeline_stage.started_at end

-- name: get
-- Read one run.
select id, pipeline, kind, record, mode, state, names, started_at, ended_at, uid, version, error
from interlock_pipeline_run where namespace = :namespace and id = :id

-- name: list_all
-- List runs by their start, the last one first.
select id, pipeline, kind, record, mode, state, names, started_at, ended_at, uid, version, error
from interlock_pipeline_run
where namespace = :namespace and (started_at, id) < (:before_at, :before_id)
  and (:pipeline = '' or pipeline = :pipeline) and (:kind = '' or kind = :kind) and (:state = '' or state = :state)
order by started_at desc, id desc
limit :limit

-- name: list_record
-- List the runs of one record by their start, the last one first.
select id, pipeline, kind, record, mode, state, names, started_at, ended_at, uid, version, error
from interlock_pipeline_run
where namespace = :namespace and kind = :kind and record = :record and (started_at, id) < (:before_at, :before_id)
  and (:pipeline = '' or pipeline = :pipeline) and (:state = '' or state = :state)
order by started_at desc, id desc
limit :limit

-- name: stages
-- Read the stages of some runs by position.
select run, name, position, state, attempt, started_at, ended_at, error
from interlock_pipeline_stage
where run in (select value from json_each(:ids))
order by run, position, name

-- name: old_runs
-- Select runs that may be removed: they ended before a time, or their jobs were removed before they ended.
select id from (
    select r.id from interlock_pipeline_run r
    where r.namespace = :namespace and r.ended_at < :before
      and not exists (select 1 from interlock_job j where j.id = r.id)
    union all
    select r.id from interlock_pipeline_run r
    where r.namespace = :namespace and r.ended_at is null and r.started_at < :before
      and not exists (select 1 from interlock_job j where j.id = r.id)
      and not exists (select 1 from interlock_job_history h where h.id = r.id))
limit :limit

-- name: delete_runs
-- Remove runs.
delete from interlock_pipeline_run where id in (select value from json_each(:ids))

-- name: delete_stages
-- Remove the stages of some runs.
delete from interlock_pipeline_stage where run in (select value from json_each(:ids))
