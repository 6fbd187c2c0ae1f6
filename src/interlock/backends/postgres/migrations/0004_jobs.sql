-- Jobs. Times and spans are whole microseconds. A pool is namespace/queue and a lane namespace/lane in one column, so that
-- every index begins with what tells rows apart.
--
-- The order of locks, for everybody: rows of job_claimed by fence, then rows of job_lane by lane, then rows of job_ready,
-- job_later and job_wait, then rows of job_limit by key. Whoever cannot keep to it takes what nobody has locked.

-- Each value stands for the hundred ids that begin with it.
create sequence interlock.job_id increment 100;

create sequence interlock.job_position;

create sequence interlock.job_ticket;

-- Groups of suspects. The halves of group n are 2n and 2n + 1.
create sequence interlock.job_group;

-- Namespaces that may have history: that of one alone goes by whole days. Noted by who claims or cancels, never by who
-- enqueues, which may be part of a long transaction. pruned_to: history that ended before this time has been removed.
create table interlock.job_namespace (
    namespace text primary key,
    pruned_to bigint not null default 0
);

-- A job from its acceptance to its end. Where it stands is told by the other tables. position: its place in its lane, null
-- without one and until it is due. apart: it has its place but stands in job_later, in a limit's line or parked; kept
-- only for jobs with a lane. fence and settled: the last claim that ended, and how. crashes: how many workers died while it
-- was their only suspect. half: the half of a group of suspects that it belongs to, null if it is not a suspect. use_*: its
-- limit if it has one; uses: its limits if it has several. refused_by: the versions that could not read its arguments, as
-- JSON [[fingerprint, version]]; refused: it stands apart until a worker of another version takes it.
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
    use_most    integer,
    attempt     integer not null default 0,
    priority    smallint not null,
    crashes     smallint not null default 0,
    settled     smallint,
    failing     smallint not null,
    coalesces   boolean not null,
    paced       boolean not null,
    apart       boolean not null default false,
    refused     boolean not null default false,
    pool        text collate "C" not null,
    name        text collate "C" not null,
    lane        text collate "C",
    use_key     text collate "C",
    uses        jsonb,
    arguments   text not null,
    options     text not null,
    parked      text,
    refused_by  text collate "C",
    cancelled   text,
    error       text not null default '',
    attempts    jsonb
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

create index job_by_lane on interlock.job (lane, position) where position is not null;
create index job_by_refusal on interlock.job (pool, name, refused_by, id) where refused;
create index job_by_half on interlock.job (half) where half is not null;

-- What may be claimed: jobs without a lane, and heads of lanes. class: 0 usual, 1 only for who can start now, 2 a suspect.
-- use_key and use_most: set if its only limit is one on slots. half: as in job.
create table interlock.job_ready (
    pool     text collate "C" not null,
    sort     bigint not null,
    id       bigint not null,
    half     bigint,
    use_most integer,
    class    smallint not null,
    limited  boolean not null,
    name     text collate "C" not null,
    lane     text collate "C",
    use_key  text collate "C",
    primary key (pool, class, sort, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- A lane is offered once.
create unique index job_ready_by_lane on interlock.job_ready (lane) where lane is not null;

-- What waits for its time, with what it takes to make it ready.
create table interlock.job_later (
    pool     text collate "C" not null,
    at       bigint not null,
    id       bigint not null,
    use_most integer,
    priority smallint not null,
    class    smallint not null,
    limited  boolean not null,
    name     text collate "C" not null,
    lane     text collate "C",
    use_key  text collate "C",
    primary key (pool, at, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Sessions that have claimed jobs, for as long as history may tell of them. barred: claims up to this turn come too late.
-- leaving: its process was told to end, so that a death from then on counts against no job. crashed: some of its jobs have
-- become suspects.
create table interlock.job_crew (
    id        bigint generated always as identity primary key,
    namespace text not null,
    session   text not null,
    host      text not null,
    pid       integer not null,
    program   text not null,
    seen_at   bigint not null,
    barred    bigint not null default 0,
    leaving   boolean not null default false,
    crashed   boolean not null default false,
    unique (namespace, session)
);

-- Claims: jobs that were given to a session together, those of them that have not been settled. runs: which run of
-- its lane each belongs to, null without one, and null as a whole if no lane is among them; a run is never parted
-- between claims.
create table interlock.job_claimed (
    fence      bigint primary key,
    claimed_at bigint not null,
    crew       bigint not null,
    turn       bigint not null,
    limited    boolean not null,
    namespace  text not null,
    session    text not null,
    ids        bigint[] not null,
    runs       integer[]
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_claimed_by_session on interlock.job_claimed (session);

-- Jobs that were sent again because nobody knew whether they had been accepted: the first sending may still come.
create table interlock.job_again (
    id bigint primary key,
    at bigint not null
);

-- A lane that claimers know to be not empty, or that is held or parked. low: nothing that was seen of it stands before it.
-- claimed: some of its jobs are; they are one run.
create table interlock.job_lane (
    lane          text collate "C" primary key,
    low           bigint not null,
    claimed       boolean not null default false,
    held_since    bigint,
    held_by       text,
    held_reason   text,
    parked_since  bigint,
    parked_reason text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Says that a lane has something from a position on; only ever inserted by who enqueues. Whoever claims makes the lanes
-- ready that are idle.
create table interlock.job_signal (
    namespace text not null,
    position  bigint not null,
    lane      text collate "C" not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_signal_by_position on interlock.job_signal (namespace, position);

-- How many claimed jobs hold a limit's key: the row to lock before anything on a key is counted or changed. figures: how
-- many of them know which "most/per", null while all know one, which is most and per then. wake_at: when a pace lets
-- the first in line start.
create table interlock.job_limit (
    namespace text not null,
    key       text collate "C" not null,
    wake_at   bigint,
    per       bigint,
    most      integer,
    taken     integer not null default 0,
    figures   jsonb,
    primary key (namespace, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_limit_by_wake on interlock.job_limit (namespace, wake_at) where wake_at is not null;

-- Starts that count for a pace, whatever became of the jobs. at: when the claimer starts the job at the latest.
create table interlock.job_start (
    namespace    text not null,
    key          text collate "C" not null,
    at           bigint not null,
    id           bigint not null,
    counts_until bigint not null,
    claimed_at   bigint not null,
    primary key (namespace, key, at, id)
);

create index job_start_by_end on interlock.job_start (namespace, counts_until);

-- Slots that came free and are not counted yet in job_limit, so that who settles waits for nobody. A count of 0 only
-- says that somebody left the line.
create table interlock.job_freed (
    number    bigint generated always as identity,
    namespace text not null,
    key       text collate "C" not null,
    most      integer not null,
    per       bigint not null,
    count     integer not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_freed_by_number on interlock.job_freed (namespace, number);

-- The lines of limits, of each kind of job for itself. One that was woken is ready and keeps its place.
create table interlock.job_wait (
    id        bigint primary key,
    ticket    bigint not null,
    per       bigint not null,
    most      integer not null,
    woken     boolean not null default false,
    namespace text not null,
    key       text collate "C" not null,
    pool      text collate "C" not null,
    name      text collate "C" not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

create index job_wait_by_key on interlock.job_wait (key, namespace, pool, name, ticket);

-- Jobs that have ended. state: 0 done, 1 failed, 2 discarded, 3 cancelled, 4 superseded, 5 quarantined.
create table interlock.job_history (
    id            bigint not null,
    enqueued_at   bigint not null,
    due_at        bigint not null,
    fence         bigint not null,
    keep_result   bigint not null,
    claimed_at    bigint,
    started_at    bigint,
    finished_at   bigint not null,
    crew          bigint,
    superseded_by bigint,
    kept_until    bigint,
    use_per       bigint,
    use_most      integer,
    attempt       integer not null,
    priority      smallint not null,
    crashes       smallint not null,
    state         smallint not null,
    settled       smallint,
    failing       smallint not null,
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

-- What workers work on. reads: by the name of a job, the fingerprint of what its handler takes and the program's version.
create table interlock.job_worker (
    namespace text not null,
    session   text not null,
    queues    text[] not null,
    names     text[] not null,
    runners   integer not null,
    reads     jsonb not null default '{}',
    primary key (namespace, session)
);

-- Sessions that wait for the end of a job. ended: it has come, and was said.
create table interlock.job_awaited (
    id        bigint not null,
    session   text not null,
    namespace text not null,
    ended     boolean not null default false,
    primary key (id, session)
);

create index job_awaited_by_session on interlock.job_awaited (session, namespace);

-- What decides who comes first: a point of priority is worth 600 seconds of waiting.
create function interlock.job_sort(p_due_at bigint, p_priority smallint) returns bigint
language sql immutable
as $$ select p_due_at - p_priority * 600000000::bigint $$;

create function interlock.job_class(p_half bigint, p_paced boolean) returns smallint
language sql immutable
as $$ select (case when p_half is not null then 2 when p_paced then 1 else 0 end)::smallint $$;

-- The limits of a job, in the order of their keys.
create function interlock.job_uses(p_key text, p_most integer, p_per bigint, p_uses jsonb)
returns table (key text, most integer, per bigint)
language sql immutable
as $$
    select p_key, p_most, p_per where p_key is not null
    union all
    select u ->> 0, (u ->> 1)::integer, (u ->> 2)::bigint from jsonb_array_elements(p_uses) u
$$;

-- Tell those who work on a queue that there may be something to claim, from this sort key on.
create function interlock.job_tell(p_pool text, p_sort bigint) returns void
language sql volatile
as $$ select pg_notify('interlock_jobs_' || md5(p_pool), p_sort::text) $$;

-- The first of so many ids in a row. Those who want more than a hundred take turns; others take single values meanwhile,
-- so that it may need another try.
create function interlock.job_ids(p_count integer) returns bigint
language plpgsql volatile
as $$
declare
    first bigint := nextval('interlock.job_id');
    last bigint := first;
    next bigint;
begin
    perform interlock.durably();
    if p_count > 100 then
        perform pg_advisory_xact_lock(1229870157, 1);
    end if;
    while last - first + 100 < p_count loop
        next := nextval('interlock.job_id');
        if next <> last + 100 then
            first := next;
        end if;
        last := next;
    end loop;
    return first;
end
$$;

-- Accept jobs, in the order given. What they have in common is given once: p_kinds[i] says which of the kinds job i is of.
-- p_lanes, p_delays and p_ats may be null if no job has one. Those in p_known are left out; null if they are sent for the
-- first time: then those that were sent again meanwhile are.
create function interlock.job_enqueue(
    p_namespace text, p_ids bigint[], p_kinds integer[], p_lanes text[], p_delays double precision[],
    p_ats double precision[], p_arguments text[], p_names text[], p_queues text[], p_priorities integer[],
    p_failings integer[], p_coalesce boolean[], p_keeps double precision[], p_options text[], p_use_keys text[],
    p_use_mosts integer[], p_use_pers bigint[], p_uses text[], p_paced boolean[], p_known bigint[],
    p_given double precision
) returns void
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_hashjoin = on
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_given));
    known bigint[] := p_known;
    fresh bigint[] := p_ids;
begin
    perform interlock.durably();
    if known is null then
        known := '{}';
        if exists (select from interlock.job_again) then
            known := array(select a.id from interlock.job_again a where a.id = any (p_ids));
        end if;
    end if;
    if known <> '{}' then
        fresh := array(select u.id from unnest(p_ids) as u (id) where u.id <> all (known));
    end if;
    insert into interlock.job (
        id, position, enqueued_at, due_at, keep_result, use_per, use_most, priority, failing, coalesces, paced, pool, name,
        lane, use_key, uses, arguments, options)
    select x.id, case when x.lane is not null and x.due_at <= now_us then nextval('interlock.job_position') end, now_us,
           x.due_at, x.keep, x.use_per, x.use_most, x.priority, x.failing, x.coalesces, x.paced, x.pool, x.name, x.lane,
           x.use_key, x.uses, x.arguments, x.options
    from (
        select s.id,
               greatest(now_us, coalesce((s.at * 1e6)::bigint, now_us + (coalesce(s.delay, 0) * 1e6)::bigint)) as due_at,
               (k.keep * 1e6)::bigint as keep, k.use_per, k.use_most, k.priority, k.failing, k.coalesces, k.paced,
               p_namespace || '/' || k.queue as pool, k.name, p_namespace || '/' || nullif(s.lane, '') as lane, k.use_key,
               k.uses::jsonb as uses, s.arguments, k.options
        from unnest(p_ids, p_kinds, p_lanes, p_delays, p_ats, p_arguments)
             with ordinality as s (id, kind, lane, delay, at, arguments, n)
        join unnest(p_names, p_queues, p_priorities, p_failings, p_coalesce, p_keeps, p_options, p_use_keys, p_use_mosts,
                    p_use_pers, p_uses, p_paced)
             with ordinality as k (name, queue, priority, failing, coalesces, keep, options, use_key, use_most, use_per,
                                   uses, paced, n) on k.n = s.kind
        where s.id <> all (known)
        order by s.n
    ) x;
    insert into interlock.job_ready (pool, sort, id, use_most, class, limited, name, use_key)
    select p_namespace || '/' || k.queue, interlock.job_sort(x.due_at, k.priority::smallint), s.id,
           case when k.use_per = 0 then k.use_most end, interlock.job_class(null, k.paced),
           k.use_key is not null or k.uses is not null, k.name, case when k.use_per = 0 then k.use_key end
    from unnest(p_ids, p_kinds, p_lanes, p_delays, p_ats) as s (id, kind, lane, delay, at)
    cross join lateral (
        select greatest(
            now_us, coalesce((s.at * 1e6)::bigint, now_us + (coalesce(s.delay, 0) * 1e6)::bigint)) as due_at) x
    join unnest(p_names, p_queues, p_priorities, p_use_keys, p_use_mosts, p_use_pers, p_uses, p_paced)
         with ordinality as k (name, queue, priority, use_key, use_most, use_per, uses, paced, n) on k.n = s.kind
    where s.id <> all (known) and nullif(s.lane, '') is null and x.due_at <= now_us
    order by s.id;
    if p_delays is not null or p_ats is not null then
        insert into interlock.job_later (pool, at, id, use_most, priority, class, limited, name, lane, use_key)
        select j.pool, j.due_at, j.id, case when j.use_per = 0 then j.use_most end, j.priority,
               interlock.job_class(null, j.paced), j.use_key is not null or j.uses is not null, j.name, j.lane,
               case when j.use_per = 0 then j.use_key end
        from interlock.job j where j.id = any (fresh) and j.due_at > now_us;
    end if;
    if p_lanes is not null then
        insert into interlock.job_signal (namespace, position, lane)
        select p_namespace, min(j.position), j.lane from interlock.job j
        where j.id = any (fresh) and j.position is not null group by j.lane;
    end if;
    perform interlock.job_tell(
        p_namespace || '/' || k.queue,
        interlock.job_sort(now_us, max(k.priority)::smallint))
    from unnest(p_queues, p_priorities) as k (queue, priority) group by k.queue;
    -- They may have been sent again since the first look, and even have ended.
    if p_known is null and exists (select from interlock.job_again)
       and exists (select from interlock.job_again a where a.id = any (p_ids) and a.id <> all (known)) then
        raise unique_violation using message = 'jobs that were sent again meanwhile';
    end if;
end
$$;

-- The same for jobs that an earlier call may have stored: those that are or were there are left as they are. That call may
-- be under way still; and what it stored may come to its end between two looks.
create function interlock.job_enqueue_again(
    p_namespace text, p_ids bigint[], p_kinds integer[], p_lanes text[], p_delays double precision[],
    p_ats double precision[], p_arguments text[], p_names text[], p_queues text[], p_priorities integer[],
    p_failings integer[], p_coalesce boolean[], p_keeps double precision[], p_options text[], p_use_keys text[],
    p_use_mosts integer[], p_use_pers bigint[], p_uses text[], p_paced boolean[], p_given double precision
) returns void
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    fresh bigint[];
    known bigint[];
begin
    with noted as (
        insert into interlock.job_again as a (id, at)
        select u.id, interlock.micros(interlock.now_or(p_given)) from unnest(p_ids) as u (id) order by u.id
        on conflict do nothing returning a.id
    )
    select coalesce(array_agg(noted.id), '{}') into fresh from noted;
    loop
        -- Also what a repetition before this one stored, though nothing may be left of it.
        known := array(
            select j.id from interlock.job j where j.id = any (p_ids)
            union
            select h.id from interlock.job_history h where h.id = any (p_ids)
            union
            select u.id from unnest(p_ids) as u (id) where u.id <> all (fresh));
        begin
            perform interlock.job_enqueue(
                p_namespace, p_ids, p_kinds, p_lanes, p_delays, p_ats, p_arguments, p_names, p_queues, p_priorities,
                p_failings, p_coalesce, p_keeps, p_options, p_use_keys, p_use_mosts, p_use_pers, p_uses, p_paced, known,
                p_given);
            if exists (select from interlock.job_history h where h.id = any (p_ids) and h.id <> all (known)) then
                raise unique_violation;
            end if;
            return;
        exception when unique_violation then
            null;
        end;
    end loop;
end
$$;

-- Accept one job from any program, inside its own transaction: select interlock.enqueue('report', '{"account": "a1"}').
-- p_limits: [[key, most, seconds]], 0 seconds for slots. Returns the job's id. Runs with the rights of the schema's owner,
-- so that EXECUTE on it is all that a role needs to enqueue, and what it stores is what it has checked.
create function interlock.enqueue(
    p_name text, p_arguments jsonb default '{}', p_queue text default 'default', p_lane text default '',
    p_priority integer default 50, p_delay double precision default 0, p_at timestamptz default null,
    p_limits jsonb default '[]', p_failing text default 'block', p_coalesce boolean default false,
    p_keep_result double precision default 3600, p_options jsonb default '{}', p_namespace text default 'default'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant double precision := 366 * 24 * 3600;
    new_id bigint := nextval('interlock.job_id');
    failing integer := array_position(array['block', 'skip', 'park'], p_failing) - 1;
    wrong text;
    uses jsonb;
begin
    wrong := case
        when (p_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$') is not true then 'p_name'
        when (p_queue ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$') is not true then 'p_queue'
        when (jsonb_typeof(p_arguments) = 'object' and octet_length(p_arguments::text) <= 1048576) is not true
            then 'p_arguments'
        when (octet_length(p_lane) <= 512) is not true then 'p_lane'
        when (p_priority between 0 and 100) is not true then 'p_priority'
        when (p_delay between 0 and year) is not true then 'p_delay'
        when (p_at between '0001-01-02 00:00+00' and '9999-12-30 00:00+00') is false then 'p_at'
        when failing is null then 'p_failing'
        when (p_coalesce and p_lane = '') is not false then 'p_coalesce'
        when (p_keep_result between 0 and year) is not true then 'p_keep_result'
        when (jsonb_typeof(p_options) = 'object') is not true then 'p_options'
        when coalesce(p_namespace, '') = '' then 'p_namespace'
        when (jsonb_typeof(p_limits) = 'array') is not true then 'p_limits' end;
    if wrong is null and exists (
        select from jsonb_array_elements(p_limits) u
        where (jsonb_typeof(u) = 'array' and jsonb_array_length(u) = 3 and jsonb_typeof(u -> 0) = 'string'
               and octet_length(u ->> 0) between 1 and 512 and (u ->> 1) ~ '^([1-9][0-9]{0,3}|10000)$'
               and jsonb_typeof(u -> 2) = 'number' and (u ->> 2)::numeric between 0 and year) is not true)
       or (select count(*) > count(distinct u ->> 0) from jsonb_array_elements(
               case jsonb_typeof(p_limits) when 'array' then p_limits else '[]' end) u)
    then
        wrong := 'p_limits';
    end if;
    if wrong is not null then
        raise exception 'Not a job that could be accepted: % of % is wrong.', wrong, coalesce(p_name, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Names have 1 to 63 letters, digits, dots, dashes and underscores, a letter or digit first; '
                         'arguments and options are objects, limits [[key, most, seconds]]; spans are seconds up to a year.';
    end if;
    select jsonb_agg(jsonb_build_array(u ->> 0, (u ->> 1)::integer, round((u ->> 2)::numeric * 1000000)::bigint)
                     order by (u ->> 0) collate "C")
    into uses from jsonb_array_elements(p_limits) u;
    perform interlock.job_enqueue(
        p_namespace, array[new_id], array[1], array[p_lane], array[p_delay], array[extract(epoch from p_at)::float8],
        array[p_arguments::text], array[p_name], array[p_queue], array[p_priority], array[failing], array[p_coalesce],
        array[p_keep_result], array[p_options::text],
        array[case when jsonb_array_length(uses) = 1 then uses -> 0 ->> 0 end],
        array[case when jsonb_array_length(uses) = 1 then (uses -> 0 ->> 1)::integer end],
        array[case when jsonb_array_length(uses) = 1 then (uses -> 0 ->> 2)::bigint end],
        array[case when jsonb_array_length(uses) > 1 then uses::text end],
        array[exists (select from jsonb_array_elements(uses) u where (u ->> 2)::bigint > 0)], null, null);
    return new_id;
end
$$;
