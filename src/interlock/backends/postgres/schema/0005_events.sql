-- Events, with the IDs of the jobs that they caused. Times are whole microseconds. kept_until: when an event can be
-- removed, if its jobs have ended by then. The primary key makes a repeated delivery one event.
create table interlock.event (
    id          bigint not null,
    received_at bigint not null,
    kept_until  bigint not null,
    replay_of   bigint,
    namespace   text collate "C" not null,
    source      text collate "C" not null,
    delivery    text collate "C" not null,
    type        text collate "C" not null,
    actor       text collate "C" not null,
    replayed_by text not null,
    jobs        bigint[] not null,
    payload     text not null,
    primary key (namespace, delivery, source)
);

create unique index event_by_id on interlock.event (id);
create index event_by_time on interlock.event (namespace, received_at, id);
create index event_by_source on interlock.event (namespace, source, received_at, id);
create index event_by_type on interlock.event (namespace, type, received_at, id);
create index event_by_actor on interlock.event (namespace, actor, received_at, id);
create index event_by_end on interlock.event (namespace, kept_until);

-- Payloads are most of the data: lz4 compresses them faster, where the server supports it.
do $$
begin
    execute 'alter table interlock.event alter column payload set compression lz4';
exception when feature_not_supported or syntax_error or invalid_parameter_value then
    null;
end
$$;

-- Events to accept, as parallel arrays. job_counts: how many of the jobs that are accepted with them belong to each.
-- attributions: actor and reason of a replay, as JSON; null as a whole if none of them is a replay.
create type interlock.new_events as (
    ids          bigint[],
    sources      text[],
    deliveries   text[],
    types        text[],
    actors       text[],
    keeps        double precision[],
    replays      bigint[],
    attributions text[],
    job_counts   integer[]
);
