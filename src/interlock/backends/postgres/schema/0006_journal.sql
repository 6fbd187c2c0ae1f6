-- The journal: every operation with its actor, reason and cause. Append-only: entries are removed by age in whole
-- batches, and only the batch in which they are sealed is set later.
create table interlock.journal (
    id           bigint generated always as identity primary key,
    at           bigint not null,  -- microseconds since 1970
    namespace    text collate "C" not null,
    actor        text collate "C" not null,
    reason       text not null,
    action       text collate "C" not null,  -- subject kind and verb, such as job.retry
    subject_kind text collate "C" not null,
    subject_key  text collate "C" not null,
    from_version bigint,
    to_version   bigint,
    before       json,  -- not jsonb: the text is kept as it was written, so that a hash of it can be checked
    after        json,
    cause_event  bigint,
    cause_job    bigint,
    cause_fence  bigint,
    batch        bigint  -- null until a sealer closes the batch and hashes it
);
create index journal_by_time on interlock.journal (namespace, at, id);
create index journal_by_subject on interlock.journal (namespace, subject_kind, subject_key, at, id);
create index journal_by_actor on interlock.journal (namespace, actor, at, id);
-- The entries of a batch, and those without one: null sorts last.
create index journal_by_batch on interlock.journal (namespace, batch, id);
create index journal_by_cause_job on interlock.journal (namespace, cause_job, at, id) where cause_job is not null;
create index journal_by_cause_event on interlock.journal (namespace, cause_event, at, id) where cause_event is not null;

-- One seal a batch, a chain of hashes. Seals are kept when the entries of their batch are removed.
create table interlock.journal_seal (
    namespace text collate "C" not null,
    batch     bigint not null check (batch > 0),  -- 1, 2, 3, … without a gap
    previous  bytea not null,  -- the hash of the seal before
    sealed_at bigint not null,
    size      integer not null,
    first_id  bigint not null,
    last_id   bigint not null,
    newest_at bigint not null,  -- the time of the newest entry
    root      bytea not null,  -- the hash of the leaves
    hash      bytea not null,
    leaves    bytea,  -- ID and hash of each entry; null once the batch is pruned
    pruned_at bigint,
    primary key (namespace, batch)
);
create index journal_seal_kept on interlock.journal_seal (namespace, batch) where pruned_at is null;

-- The result of the last verification.
create table interlock.journal_verification (
    namespace text collate "C" primary key,
    at        bigint not null,
    batches   bigint not null,
    entries   bigint not null,
    problems  integer not null,
    problem   text not null,  -- the first one
    head      bytea not null
);
