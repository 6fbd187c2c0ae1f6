-- Events with the IDs of the jobs they caused, as JSON. Times are whole microseconds. kept_until: when the event may be deleted,
-- if its jobs are finished by then.
create table interlock_event (
    id          integer primary key,
    namespace   text not null,
    source      text not null,
    delivery    text not null,
    type        text not null,
    actor       text not null,
    received_at integer not null,
    kept_until  integer not null,
    replay_of   integer,
    replayed_by text not null,
    jobs        text not null,
    payload     text not null
);

-- A delivery of a source is stored once.
create unique index interlock_event_by_delivery on interlock_event (namespace, delivery, source);

create index interlock_event_by_time on interlock_event (namespace, received_at, id);
create index interlock_event_by_source on interlock_event (namespace, source, received_at, id);
create index interlock_event_by_type on interlock_event (namespace, type, received_at, id);
create index interlock_event_by_actor on interlock_event (namespace, actor, received_at, id);
create index interlock_event_by_end on interlock_event (namespace, kept_until);
