-- Runs of pipelines. id is that of the run's job. fence, step: the last checkpoint that was stored. version, written_at:
-- its answer. names: the names of the stages as JSON. Times are whole microseconds.
create table interlock_pipeline_run (
    id         integer primary key,
    namespace  text not null,
    pipeline   text not null,
    kind       text not null,
    record     text not null,
    uid        text not null,
    mode       text not null,
    state      text not null,
    names      text not null,
    fence      integer not null,
    step       integer not null,
    version    integer,
    written_at integer not null,
    started_at integer not null,
    ended_at   integer,
    error      text not null
);

create index interlock_pipeline_run_by_start on interlock_pipeline_run (namespace, started_at, id);
create index interlock_pipeline_run_by_record on interlock_pipeline_run (namespace, kind, record, started_at, id);
create index interlock_pipeline_run_by_end on interlock_pipeline_run (namespace, ended_at);

-- The stages of a run that have started. attempt: how many times; the times are those of the last attempt.
create table interlock_pipeline_stage (
    run        integer not null,
    name       text not null,
    position   integer not null,
    state      text not null,
    attempt    integer not null,
    started_at integer not null,
    ended_at   integer,
    error      text not null,
    primary key (run, name)
) without rowid;
