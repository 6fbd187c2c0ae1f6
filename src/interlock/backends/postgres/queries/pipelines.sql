-- name: save
-- Store a checkpoint.
select answer, version, at, details from interlock.pipeline_save(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15::jsonb, $16::jsonb, $17, $18, $19, $20, $21, $22, $23,
    $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38)

-- name: get
-- Read one run.
select r.id, r.pipeline, r.kind, r.record, r.mode, r.state, r.names, r.started_at, r.ended_at, r.uid, r.version, r.error
from interlock.pipeline_run r where r.namespace = $1 and r.id = $2

-- name: list_all
-- List runs by their start, the last one first: those before a start and ID, of a pipeline, a kind and a state.
select r.id, r.pipeline, r.kind, r.record, r.mode, r.state, r.names, r.started_at, r.ended_at, r.uid, r.version, r.error
from interlock.pipeline_run r
where r.namespace = $1 and (r.started_at, r.id) < ($2, $3) and ($4 = '' or r.pipeline = $4) and ($5 = '' or r.kind = $5)
  and ($6 = '' or r.state = $6)
order by r.started_at desc, r.id desc limit $7

-- name: list_record
-- List the runs of one record by their start, the last one first.
select r.id, r.pipeline, r.kind, r.record, r.mode, r.state, r.names, r.started_at, r.ended_at, r.uid, r.version, r.error
from interlock.pipeline_run r
where r.namespace = $1 and (r.started_at, r.id) < ($2, $3) and ($4 = '' or r.pipeline = $4) and r.kind = $5
  and ($6 = '' or r.state = $6) and r.record = $8
order by r.started_at desc, r.id desc limit $7

-- name: stages
-- Read the stages of some runs by position.
select s.run, s.name, s.position, s.state, s.attempt, s.started_at, s.ended_at, s.error
from interlock.pipeline_stage s where s.run = any ($1::bigint[]) order by s.run, s.position, s.name

-- name: prune
-- Remove old runs.
select interlock.pipeline_prune($1, $2, $3, $4)
