-- Jobs. Times and durations are whole microseconds. A pool is namespace/queue and a lane namespace/lane in one
-- column, so that every index starts with the distinguishing column.
--
-- The order of locks in every transaction: rows of job_fetched by fence, rows of job_lane by lane, rows of
-- job_ready, job_scheduled and job_limit_wait, rows of job_limit by key, rows of limit_use. A transaction that cannot keep
-- this order skips locked rows.

-- Each value stands for the hundred IDs that start with it.
create sequence interlock.job_id increment 100;

create sequence interlock.job_position;

create sequence interlock.job_ticket;

-- Groups of suspects. The halves of group n are 2n and 2n + 1.
create sequence interlock.job_group;

-- Namespaces that may have history: the history of a single namespace is dropped by whole days. Recorded by fetches
-- and cancellations, never by an enqueue, which may be part of a long transaction. pruned_to: history that ended
-- before this time has been removed.
create table interlock.job_namespace (
    namespace text primary key,
    pruned_to bigint not null default 0
);

-- A job from its acceptance to its end. Its state follows from the other tables. position: its position in its lane;
-- null without a lane, and until it is due. apart: it has a position but is scheduled, waits for a limit, is parked
-- or unreadable; only for jobs with a lane. fence, last_outcome: the last fetch that ended, and how. crashes: how
-- many workers died while it was their only suspect. half: the half of a group of suspects that it belongs to; null
-- if it is not a suspect. use_*: its limit if it has one; uses: its limits if it has several. unreadable_by: the
-- versions that could not read its arguments, as JSON [[fingerprint, version]]; unreadable: it is set aside until a
-- worker of another version takes it. expires_at: it is not started for the first time from then on; null once it has
-- started. hooks: what to enqueue when it ends, as JSON [[name, queue, priority, [state]]]. cause: what enqueued it.
create table interlock.job (
    id          bigint primary key,
    position    bigint,
    enqueued_at bigint not null,
    due_at      bigint not null,
    fence       bigint not null default 0,
    keep_result bigint not null,
    ticket      bigint,
    half        bigint,
    use_per     bigint,
    use_max_count    integer,
    attempt     integer not null default 0,
    priority    smallint not null,
    crashes     smallint not null default 0,
    last_outcome     smallint,
    on_failure     smallint not null,
    coalesces   boolean not null,
    paced       boolean not null,
    apart       boolean not null default false,
    unreadable  boolean not null default false,
    pool        text collate "C" not null,
    name        text collate "C" not null,
    lane        text collate "C",
    use_key     text collate "C",
    uses        jsonb,
    expires_at  bigint,
    arguments   text not null,
    options     text not null,
    parked      text,
    unreadable_by text collate "C",
    cancelled   text,
    error       text not null default '',
    hooks       text,
    cause       text,
    attempts    jsonb
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_by_lane on interlock.job (lane, position) where position is not null;
create index job_by_unreadable on interlock.job (pool, name, unreadable_by, id) where unreadable;
create index job_by_half on interlock.job (half) where half is not null;

-- Jobs that can be fetched: jobs without a lane, and first jobs of lanes. class: see job_codes.py. use_key and
-- use_max_count: set if its only limit is on slots. half: as in job.
create table interlock.job_ready (
    pool     text collate "C" not null,
    sort     bigint not null,
    id       bigint not null,
    half     bigint,
    use_max_count integer,
    class    smallint not null,
    limited  boolean not null,
    name     text collate "C" not null,
    lane     text collate "C",
    use_key  text collate "C",
    primary key (pool, class, sort, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- A lane has at most one ready job.
create unique index job_ready_by_lane on interlock.job_ready (lane) where lane is not null;

-- Scheduled jobs, with the columns that they need in job_ready.
create table interlock.job_scheduled (
    pool     text collate "C" not null,
    at       bigint not null,
    id       bigint not null,
    use_max_count integer,
    priority smallint not null,
    class    smallint not null,
    limited  boolean not null,
    name     text collate "C" not null,
    lane     text collate "C",
    use_key  text collate "C",
    primary key (pool, at, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Sessions that have fetched jobs, as long as history may refer to them. refused_fetches: fetches up to this number are
-- refused. leaving: its process was asked to stop, so that its death from then on counts against no job. crashed:
-- some of its jobs have become suspects.
create table interlock.job_session (
    id        bigint generated always as identity primary key,
    namespace text not null,
    session   text not null,
    host      text not null,
    pid       integer not null,
    program   text not null,
    seen_at   bigint not null,
    refused_fetches bigint not null default 0,
    leaving   boolean not null default false,
    crashed   boolean not null default false,
    unique (namespace, session)
);

-- Fetches: jobs that a session fetched together and has not acknowledged. runs: the run of its lane that each
-- belongs to, null without a lane, and null as a whole if no job has one. The jobs of a run are always in one fetch.
create table interlock.job_fetched (
    fence      bigint primary key,
    fetched_at bigint not null,
    session_id       bigint not null,
    fetch_number       bigint not null,
    limited    boolean not null,
    namespace  text not null,
    session    text not null,
    ids        bigint[] not null,
    runs       integer[]
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_fetched_by_session on interlock.job_fetched (session);

-- The fetched jobs of which a session has reported that they have started, with the fences of their fetches. Pairs whose
-- fetch has ended mean nothing. Apart from job_fetched and job_session, so that a report waits for no fetch or
-- acknowledgement, and delays none.
create table interlock.job_started (
    session_id bigint primary key references interlock.job_session on delete cascade,
    namespace  text not null,
    ids        bigint[] not null,
    fences     bigint[] not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Jobs that were sent again because it was unknown whether they had been accepted. The first message may still
-- arrive.
create table interlock.job_resubmitted (
    id bigint primary key,
    at bigint not null
);

-- A lane that has jobs and that a fetch has seen, or that is held or parked. low: no known job of it has a lower
-- position. fetched: some of its jobs are fetched; they are one run.
create table interlock.job_lane (
    lane          text collate "C" primary key,
    low           bigint not null,
    fetched       boolean not null default false,
    held_since    bigint,
    held_by       text,
    held_reason   text,
    parked_since  bigint,
    parked_reason text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- A signal that a lane has jobs from a position on. An enqueue only inserts them; fetches make the idle lanes ready.
create table interlock.job_signal (
    namespace text not null,
    position  bigint not null,
    lane      text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_signal_by_position on interlock.job_signal (namespace, position);

-- How many fetched jobs hold a limit's key. This row is locked before anything under the key is counted or changed, by
-- fetches and by reservations. shared: reservations may use the key, so a fetch has to count them. free_since: since when a
-- key with waiting reservations has had room. override_count, override_per: the figure that a person set for the key.
-- figures: how many of them have which "max_count/per"; null while all have the same, which is then in max_count and per.
-- wake_at: when a rate lets the first waiting job start.
create table interlock.job_limit (
    namespace text not null,
    key       text collate "C" not null,
    wake_at   bigint,
    per       bigint,
    max_count      integer,
    taken     integer not null default 0,
    figures   jsonb,
    shared    boolean not null default false,
    free_since bigint,
    override_count integer,
    override_per bigint,
    primary key (namespace, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_limit_by_wake on interlock.job_limit (namespace, wake_at) where wake_at is not null;

-- Starts that count for a rate or cooldown, even after the jobs have ended. at: the latest time at which the worker
-- starts the job.
create table interlock.job_limit_start (
    namespace    text not null,
    key          text collate "C" not null,
    at           bigint not null,
    id           bigint not null,
    counts_until bigint not null,
    fetched_at   bigint not null,
    primary key (namespace, key, at, id)
);

create index job_limit_start_by_end on interlock.job_limit_start (namespace, counts_until);

-- Slots that were freed and are not counted in job_limit yet, so that an acknowledgement waits for no lock. A count
-- of 0 records only that a job left the queue.
create table interlock.job_slot_freed (
    number    bigint generated always as identity,
    namespace text not null,
    key       text collate "C" not null,
    max_count      integer not null,
    per       bigint not null,
    count     integer not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_slot_freed_by_number on interlock.job_slot_freed (namespace, number);

-- The queues of limits, one for each pool and name. A woken job is ready and keeps its ticket.
create table interlock.job_limit_wait (
    id        bigint primary key,
    ticket    bigint not null,
    per       bigint not null,
    max_count      integer not null,
    woken     boolean not null default false,
    namespace text not null,
    key       text collate "C" not null,
    pool      text collate "C" not null,
    name      text collate "C" not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_limit_wait_by_key on interlock.job_limit_wait (key, namespace, pool, name, ticket);

-- Jobs that have ended. state: see job_codes.py.
create table interlock.job_history (
    id            bigint not null,
    enqueued_at   bigint not null,
    due_at        bigint not null,
    fence         bigint not null,
    keep_result   bigint not null,
    fetched_at    bigint,
    started_at    bigint,
    finished_at   bigint not null,
    session_id          bigint,
    superseded_by bigint,
    kept_until    bigint,
    use_per       bigint,
    use_max_count      integer,
    attempt       integer not null,
    priority      smallint not null,
    crashes       smallint not null,
    state         smallint not null,
    last_outcome       smallint,
    on_failure       smallint not null,
    coalesces     boolean not null,
    paced         boolean not null,
    pool          text collate "C" not null,
    name          text collate "C" not null,
    lane          text collate "C",
    use_key       text collate "C",
    uses          jsonb,
    arguments     text not null,
    options       text not null,
    error         text not null,
    hooks         text,
    cause         text,
    attempts      jsonb
) partition by range (finished_at);

create table interlock.job_history_rest partition of interlock.job_history default;

create index job_history_by_id on interlock.job_history (id);
create index job_history_by_end on interlock.job_history (finished_at);
create index job_history_by_lane on interlock.job_history (lane, id) where lane is not null;
create index job_history_by_state on interlock.job_history (state, id) where state <> 0;

create table interlock.job_result (
    id         bigint primary key,
    kept_until bigint not null,
    namespace  text not null,
    result     text not null
);

create index job_result_by_end on interlock.job_result (namespace, kept_until);

-- The queues and jobs of workers. handler_versions: by the name of a job, the fingerprint of its handler's parameters and the
-- program's version.
create table interlock.job_worker (
    namespace text not null,
    session   text not null,
    queues    text[] not null,
    names     text[] not null,
    runners   integer not null,
    handler_versions jsonb not null default '{}',
    primary key (namespace, session)
);

-- Sessions that watch the end of a job. ended: it has ended, and the session was notified.
create table interlock.job_watch (
    id        bigint not null,
    session   text not null,
    namespace text not null,
    ended     boolean not null default false,
    primary key (id, session)
);

create index job_watch_by_session on interlock.job_watch (session, namespace);

-- For reads. Rows that are not held or parked are in neither index, so that they cost nothing.
create index job_by_parked on interlock.job (id) where parked is not null;
create index job_lane_by_hold on interlock.job_lane (lane) where held_since is not null or parked_since is not null;

-- The types below carry values between the steps of a fetch; no table has them.

-- The request of a fetch. start_within: the worker starts each job within so many microseconds. lanes: only the first jobs
-- of these lanes are wanted; null for any job.
create type interlock.fetch_request as (
    namespace    text,
    session      text,
    pools        text[],
    names        text[],
    max_jobs     integer,
    at_once      integer,
    run_length   integer,
    start_within bigint,
    clock        double precision,
    lanes        text[]
);

-- The progress of a fetch. units: how many jobs without a lane, or lanes, were taken. batches: in how many batches.
-- suspects: whether the session may take suspects, null until it is known; half: the half that it runs. locked: keys of limits whose rows are locked. counts: how many jobs
-- were taken under each key. laned, limited: whether lanes or limits are among what was taken. checked: whether lanes,
-- limits or classes had to be checked. busy: something was left because another transaction has locked it. incomplete:
-- something was left because it changed. queued: some jobs wait for slots since now.
create type interlock.fetch_state as (
    now        bigint,
    units      integer,
    batches    integer,
    suspects   boolean,
    half       bigint,
    locked     text[],
    counts     jsonb,
    laned      boolean,
    limited    boolean,
    checked    boolean,
    busy       boolean,
    incomplete boolean,
    queued     boolean
);

-- Rows of job_ready that a fetch has locked, as parallel arrays in the order of their sort keys.
create type interlock.ready_jobs as (
    tids    tid[],
    ids     bigint[],
    sorts   bigint[],
    classes smallint[],
    limited boolean[],
    lanes   text[],
    keys    text[],
    maxima  integer[]
);

-- The jobs behind ready rows, as parallel arrays. One element per row: able: whether it can be taken; lane_tids, lows: the
-- row of its lane and the position of the lane's first job. One element per job: units: the row it belongs to; ids.
create type interlock.lane_runs as (
    able      boolean[],
    lane_tids tid[],
    lows      bigint[],
    units     integer[],
    ids       bigint[]
);

-- Jobs that a fetch takes, as parallel arrays. sorts: the sort key of the job's row. immediate: whether the job must be
-- among the first. runs: the run of its lane that the job belongs to, null without a lane.
create type interlock.taken_jobs as (
    ids       bigint[],
    sorts     bigint[],
    immediate boolean[],
    runs      integer[]
);

-- The slots under the keys of limits, as parallel arrays. rooms: how many more jobs may be fetched; newcomers: how many of
-- those are not for jobs in the queue; allowed: how many this fetch may take; taken: how many it took. first: the jobs at the
-- head of the queues for which there is room.
create type interlock.slot_counts as (
    keys      text[],
    maxima    integer[],
    rooms     integer[],
    newcomers integer[],
    allowed   integer[],
    taken     integer[],
    first     bigint[]
);

-- Jobs to accept, as parallel arrays. One element per job: ids, kinds, lanes, delays, ats, arguments, and those from causes
-- on; all of these but ids, kinds and arguments are null if no job has any. afters: the IDs of other jobs, as the text of an
-- array. One element per kind, which kinds refers to by its number: all others.
create type interlock.new_jobs as (
    ids        bigint[],
    kinds      integer[],
    lanes      text[],
    delays     double precision[],
    ats        double precision[],
    arguments  text[],
    names      text[],
    queues     text[],
    priorities integer[],
    on_failures   integer[],
    coalesces  boolean[],
    keeps      double precision[],
    options    text[],
    use_keys   text[],
    use_mosts  integer[],
    use_pers   bigint[],
    uses       text[],
    paced      boolean[],
    hooks      text[],
    causes     text[],
    keys       text[],
    keep_keys  double precision[],
    afters     text[],
    if_faileds integer[],
    expires    double precision[],
    expire_ats double precision[]
);

-- Acknowledgements of fetched jobs, as parallel arrays. All but ids and fences may be null; without outcomes all jobs are
-- done. results: results, or for unreadable jobs the version as [fingerprint, version]. halves: for jobs that crashed, the
-- half that they now belong to.
create type interlock.acknowledgements as (
    ids      bigint[],
    fences   bigint[],
    outcomes smallint[],
    ran      double precision[],
    delays   double precision[],
    results  text[],
    errors   text[],
    traces   text[],
    halves   bigint[]
);

-- Fetches from which acknowledged jobs were removed. matched: the positions of the jobs that belonged to them, null if all
-- did. laned, limited: whether jobs of those fetches may have lanes or limits. fences, session_ids, times: those of the
-- fetches, as parallel arrays. last_ones: one job of each run that ends with this.
create type interlock.ended_fetches as (
    matched     integer[],
    laned       boolean,
    limited     boolean,
    fences      bigint[],
    session_ids bigint[],
    times       bigint[],
    last_ones   bigint[]
);

-- What becomes of acknowledged jobs, as parallel arrays. states: the state in which a job ends, null if it goes on.
-- attempts: all attempts that are kept, with this one.
create type interlock.decided_jobs as (
    ids         bigint[],
    fences      bigint[],
    outcomes    smallint[],
    states      smallint[],
    fetched_at  bigint[],
    began_at    bigint[],
    session_ids bigint[],
    delays      bigint[],
    halves      bigint[],
    errors      text[],
    attempts    jsonb[],
    results     text[]
);
