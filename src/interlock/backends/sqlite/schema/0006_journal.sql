-- Who changed what, when, why and because of what. Append-only: entries are removed by age, and never changed but for the
-- batch in which they are sealed. Times are whole microseconds.
create table interlock_journal (
    id           integer primary key autoincrement,
    at           integer not null,
    namespace    text not null,
    actor        text not null,
    reason       text not null,
    action       text not null,
    subject_kind text not null,
    subject_key  text not null,
    from_version integer,
    to_version   integer,
    before       text,
    after        text,
    cause_event  integer,
    cause_job    integer,
    cause_fence  integer,
    batch        integer
);
create index interlock_journal_by_time on interlock_journal (namespace, at, id);
create index interlock_journal_by_subject on interlock_journal (namespace, subject_kind, subject_key, at, id);
create index interlock_journal_by_actor on interlock_journal (namespace, actor, at, id);
