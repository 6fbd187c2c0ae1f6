-- The journal: every operation with its actor, reason and cause. Append-only: entries are removed by age, and only
-- the batch in which they are sealed is set later.
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
