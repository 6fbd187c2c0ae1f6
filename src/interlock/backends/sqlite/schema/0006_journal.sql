-- The journal: every operation with its actor, reason and cause. Append-only: entries are removed by age in whole
-- batches, and only the batch in which they are sealed is set later. Times are whole microseconds.
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
-- The entries of a batch, and those without one.
create index interlock_journal_by_batch on interlock_journal (namespace, batch, id);
create index interlock_journal_by_cause_job on interlock_journal (namespace, cause_job, at, id)
where cause_job is not null;
create index interlock_journal_by_cause_event on interlock_journal (namespace, cause_event, at, id)
where cause_event is not null;

-- One seal a batch, a chain of hashes. Seals are kept when the entries of their batch are removed.
create table interlock_journal_seal (
    namespace text not null,
    batch     integer not null,  -- 1, 2, 3, … without a gap
    previous  blob not null,  -- the hash of the seal before
    sealed_at integer not null,
    size      integer not null,
    first_id  integer not null,
    last_id   integer not null,
    newest_at integer not null,  -- the time of the newest entry
    root      blob not null,  -- the hash of the leaves
    hash      blob not null,
    leaves    blob,  -- ID and hash of each entry; null once the batch is pruned
    pruned_at integer,
    primary key (namespace, batch)
);
create index interlock_journal_seal_kept on interlock_journal_seal (namespace, batch) where pruned_at is null;

-- The result of the last verification.
create table interlock_journal_verification (
    namespace text primary key,
    at        integer not null,
    batches   integer not null,
    entries   integer not null,
    problems  integer not null,
    problem   text not null,  -- the first one
    head      blob not null
);
