-- Remove a bounded number of leftovers of ended sessions, of expired starts, and of unused keys of limits. Keys that
-- are locked are skipped.
create or replace function interlock.job_sweep(p_namespace text, p_clock double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    now_us bigint := interlock.micros(now_is);
    gone record;
    idle text[];
    removed integer;
    swept integer := 0;
begin
    for gone in
        select w.session from interlock.job_worker w where w.namespace = p_namespace
        union
        select a.session from interlock.job_watch a where a.namespace = p_namespace
        except
        select s.id from interlock.session s where s.namespace = p_namespace and s.expires_at > now_is
        limit 1000
    loop
        perform interlock.job_end_session(p_namespace, gone.session);
        swept := swept + 1;
    end loop;
    delete from interlock.job_limit_start t
    where (t.namespace, t.key, t.at, t.id) in (
        select x.namespace, x.key, x.at, x.id from interlock.job_limit_start x
        where x.namespace = p_namespace and x.counts_until <= now_us limit 10000);
    get diagnostics removed = row_count;
    swept := swept + removed;
    -- In two steps: rows that were added before the key was locked are visible only after that.
    select array_agg(x.key) into idle from (
        select l.key from interlock.job_limit l
        where l.namespace = p_namespace and l.taken = 0 and l.wake_at is null and not l.shared
          and not exists (select from interlock.job_limit_wait w where w.key = l.key and w.namespace = l.namespace)
        limit 1000 for update skip locked) x;
    delete from interlock.job_limit l
    where l.namespace = p_namespace and l.key = any (idle) and l.taken = 0 and not l.shared
      and not exists (select from interlock.job_limit_wait w where w.key = l.key and w.namespace = l.namespace)
      and not exists (select from interlock.job_slot_freed f where f.namespace = l.namespace and f.key = l.key);
    get diagnostics removed = row_count;
    return swept + removed;
end
$$;
