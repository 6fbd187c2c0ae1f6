-- Accept jobs in the order given. p_known: jobs among them that are already stored and are left out; null if the jobs are
-- sent for the first time: then those that were sent again meanwhile are left out. Jobs whose keys others hold are left out
-- too. p_strict: raise an error if such a job has other arguments, or if a job waits for one that does not exist; otherwise
-- the first job with a key counts whatever its arguments, and what does not exist counts as not done.
-- planner: array_joins
create or replace function interlock.job_enqueue(
    p_namespace text, p_jobs interlock.new_jobs, p_known bigint[], p_clock double precision, p_strict boolean default true
) returns void
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    known bigint[] := p_known;
    fresh bigint[] := p_jobs.ids;
begin
    perform interlock.durably();
    if known is null then
        known := '{}';
        if exists (select from interlock.job_resubmitted) then
            known := array(select a.id from interlock.job_resubmitted a where a.id = any (p_jobs.ids));
        end if;
    end if;
    if p_jobs.keys is not null then
        known := known || interlock.job_without_keys(p_namespace, p_jobs, known, now_us, p_strict);
    end if;
    if known <> '{}' then
        fresh := array(select u.id from unnest(p_jobs.ids) as u (id) where u.id <> all (known));
    end if;
    insert into interlock.job (
        id, position, enqueued_at, due_at, keep_result, use_per, use_max_count, priority, on_failure, coalesces, paced, pool, name,
        lane, use_key, uses, expires_at, arguments, options, hooks, cause)
    select x.id,
           case when x.lane is not null and x.due_at <= now_us and x.after is null then nextval('interlock.job_position') end,
           now_us, x.due_at, x.keep, x.use_per, x.use_max_count, x.priority, x.on_failure, x.coalesces, x.paced, x.pool, x.name,
           x.lane, x.use_key, x.uses, x.expires_at, x.arguments, x.options, x.hooks, x.cause
    from (
        select s.id,
               greatest(now_us, coalesce((s.at * 1e6)::bigint, now_us + (coalesce(s.delay, 0) * 1e6)::bigint)) as due_at,
               (k.keep * 1e6)::bigint as keep, k.use_per, k.use_max_count, k.priority, k.on_failure, k.coalesces, k.paced,
               p_namespace || '/' || k.queue as pool, k.name, p_namespace || '/' || nullif(s.lane, '') as lane, k.use_key,
               k.uses::jsonb as uses, s.arguments, k.options, nullif(k.hooks, '') as hooks, nullif(s.cause, '') as cause, s.after,
               coalesce((s.expire_at * 1e6)::bigint, now_us + (s.expires * 1e6)::bigint) as expires_at
        from unnest(p_jobs.ids, p_jobs.kinds, p_jobs.lanes, p_jobs.delays, p_jobs.ats, p_jobs.arguments, p_jobs.causes,
                    p_jobs.afters, p_jobs.expires, p_jobs.expire_ats)
             with ordinality as s (id, kind, lane, delay, at, arguments, cause, after, expires, expire_at, n)
        join unnest(p_jobs.names, p_jobs.queues, p_jobs.priorities, p_jobs.on_failures, p_jobs.coalesces, p_jobs.keeps, p_jobs.options, p_jobs.use_keys, p_jobs.use_mosts,
                    p_jobs.use_pers, p_jobs.uses, p_jobs.paced, p_jobs.hooks)
             with ordinality as k (name, queue, priority, on_failure, coalesces, keep, options, use_key, use_max_count, use_per,
                                   uses, paced, hooks, n) on k.n = s.kind
        where s.id <> all (known)
        order by s.n
    ) x;
    insert into interlock.job_ready (pool, sort, id, use_max_count, class, limited, name, use_key)
    select p_namespace || '/' || k.queue, interlock.job_sort(x.due_at, k.priority::smallint), s.id,
           case when k.use_per = 0 then k.use_max_count end, interlock.job_class(null, k.paced),
           k.use_key is not null or k.uses is not null, k.name, case when k.use_per = 0 then k.use_key end
    from unnest(p_jobs.ids, p_jobs.kinds, p_jobs.lanes, p_jobs.delays, p_jobs.ats, p_jobs.afters)
         as s (id, kind, lane, delay, at, after)
    cross join lateral (
        select greatest(
            now_us, coalesce((s.at * 1e6)::bigint, now_us + (coalesce(s.delay, 0) * 1e6)::bigint)) as due_at) x
    join unnest(p_jobs.names, p_jobs.queues, p_jobs.priorities, p_jobs.use_keys, p_jobs.use_mosts, p_jobs.use_pers, p_jobs.uses, p_jobs.paced)
         with ordinality as k (name, queue, priority, use_key, use_max_count, use_per, uses, paced, n) on k.n = s.kind
    where s.id <> all (known) and nullif(s.lane, '') is null and x.due_at <= now_us and s.after is null
    order by s.id;
    if p_jobs.afters is not null then
        perform interlock.job_enqueue_after(p_namespace, p_jobs, known, p_strict);
    end if;
    if p_jobs.expires is not null or p_jobs.expire_ats is not null then
        insert into interlock.job_expiry (namespace, at, id)
        select p_namespace, j.expires_at, j.id from interlock.job j
        where j.id = any (fresh) and j.expires_at is not null;
    end if;
    if p_jobs.delays is not null or p_jobs.ats is not null then
        insert into interlock.job_scheduled (pool, at, id, use_max_count, priority, class, limited, name, lane, use_key)
        select j.pool, j.due_at, j.id, case when j.use_per = 0 then j.use_max_count end, j.priority,
               interlock.job_class(null, j.paced), j.use_key is not null or j.uses is not null, j.name, j.lane,
               case when j.use_per = 0 then j.use_key end
        from interlock.job j
        where j.id = any (fresh) and j.due_at > now_us
          and (p_jobs.afters is null or not exists (select from interlock.job_after a where a.id = j.id));
    end if;
    if p_jobs.lanes is not null then
        insert into interlock.job_signal (namespace, position, lane)
        select p_namespace, min(j.position), j.lane from interlock.job j
        where j.id = any (fresh) and j.position is not null group by j.lane;
    end if;
    perform interlock.job_notify(
        p_namespace || '/' || k.queue,
        interlock.job_sort(now_us, max(k.priority)::smallint))
    from unnest(p_jobs.queues, p_jobs.priorities) as k (queue, priority) group by k.queue;
    -- They may have been sent again, and may even have ended, since the first check.
    if p_known is null and exists (select from interlock.job_resubmitted)
       and exists (select from interlock.job_resubmitted a where a.id = any (p_jobs.ids) and a.id <> all (known)) then
        raise unique_violation using message = 'jobs that were sent again meanwhile';
    end if;
end
$$;
