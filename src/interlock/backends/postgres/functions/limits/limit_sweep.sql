-- Remove a bounded number of expired reservations and starts, and of unused keys. Keys that are locked are skipped.
create or replace function interlock.limit_sweep(p_namespace text, p_stale bigint, p_clock double precision) returns integer
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    now_us bigint := interlock.micros(now_is);
    gone record;
    locked text[];
    removed integer;
    swept integer := 0;
begin
    for gone in
        select distinct u.key from interlock.limit_use u
        left join interlock.session s on s.namespace = u.namespace and s.id = u.session
        where u.namespace = p_namespace and (s.expires_at is null or s.expires_at <= now_is)
        limit 1000
    loop
        perform from interlock.job_limit k
        where k.namespace = p_namespace and k.key = gone.key for update skip locked;
        if found then
            perform interlock.limit_drop_dead_holders(p_namespace, gone.key, now_is);
            swept := swept + 1;
        end if;
    end loop;
    for gone in
        select u.owner, array_agg(u.key) as keys from interlock.limit_use u
        where u.namespace = p_namespace and not u.started and greatest(u.last_asked, u.at) < now_us - p_stale
        group by u.owner limit 1000
    loop
        select array_agg(x.key) into locked from (
            select k.key from interlock.job_limit k
            where k.namespace = p_namespace and k.key = any (gone.keys) for update skip locked) x;
        if cardinality(locked) = cardinality(gone.keys) then
            delete from interlock.limit_use u
            where u.namespace = p_namespace and u.owner = gone.owner and not u.started
              and greatest(u.last_asked, u.at) < now_us - p_stale;
            perform interlock.limit_wake_jobs(p_namespace, gone.keys);
            swept := swept + 1;
        end if;
    end loop;
    delete from interlock.limit_start t
    where (t.namespace, t.key, t.at, t.ticket) in (
        select x.namespace, x.key, x.at, x.ticket from interlock.limit_start x
        where x.namespace = p_namespace and x.counts_until <= now_us limit 10000);
    get diagnostics removed = row_count;
    swept := swept + removed;
    -- In two steps: rows that were added before the key was locked are visible only after that.
    select array_agg(x.key) into locked from (
        select k.key from interlock.job_limit k
        where k.namespace = p_namespace and k.shared
          and not exists (select from interlock.limit_use u where u.namespace = k.namespace and u.key = k.key)
          and not exists (select from interlock.limit_start t where t.namespace = k.namespace and t.key = k.key)
        limit 1000 for update skip locked) x;
    update interlock.job_limit k set shared = false
    where k.namespace = p_namespace and k.key = any (locked)
      and not exists (select from interlock.limit_use u where u.namespace = k.namespace and u.key = k.key)
      and not exists (select from interlock.limit_start t where t.namespace = k.namespace and t.key = k.key);
    get diagnostics removed = row_count;
    delete from interlock.job_limit k
    where k.namespace = p_namespace and k.key = any (locked) and not k.shared and k.taken = 0 and k.wake_at is null
      and not exists (select from interlock.job_limit_wait w where w.key = k.key and w.namespace = k.namespace)
      and not exists (select from interlock.job_slot_freed f where f.namespace = k.namespace and f.key = k.key);
    return swept + removed;
end
$$;
