-- Runs of pipelines. id is that of the run's job. fence, step: the last checkpoint that was stored. version, written_at:
-- its answer. names: the names of the stages as JSON. Times are microseconds since 1970.
create table interlock.pipeline_run (
    id         bigint primary key,
    fence      bigint not null,
    version    bigint,
    written_at bigint not null,
    started_at bigint not null,
    ended_at   bigint,
    step       integer not null,
    namespace  text collate "C" not null,
    pipeline   text collate "C" not null,
    kind       text collate "C" not null,
    record     text collate "C" not null,
    uid        text collate "C" not null,
    mode       text collate "C" not null,
    state      text collate "C" not null,
    names      text not null,
    error      text not null
) with (fillfactor = 80);

create index pipeline_run_by_start on interlock.pipeline_run (namespace, started_at, id);
create index pipeline_run_by_record on interlock.pipeline_run (namespace, kind, record, started_at, id);
create index pipeline_run_by_end on interlock.pipeline_run (namespace, ended_at);

-- The stages of a run that have started. attempt: how many times; the times are those of the last attempt.
create table interlock.pipeline_stage (
    run        bigint not null references interlock.pipeline_run on delete cascade,
    started_at bigint not null,
    ended_at   bigint,
    position   integer not null,
    attempt    integer not null,
    name       text collate "C" not null,
    state      text collate "C" not null,
    error      text not null,
    primary key (run, name)
) with (fillfactor = 80);
