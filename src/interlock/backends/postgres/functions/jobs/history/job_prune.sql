-- Remove history that ended p_keep or longer ago, at most p_max rows or a whole day, its logs, and expired results. History that
-- is kept for days is dropped by whole days where possible, which depends on the server's clock only. One process of a
-- namespace does this at a time; the others find nothing to do. Each call continues where the calls before it stopped,
-- so that it reads only rows that it removes.
-- planner: lookups_in_partitions
create or replace function interlock.job_prune(
    p_namespace text, p_keep bigint, p_max integer, p_clock double precision
) returns integer
language plpgsql volatile
as $$
declare
    day constant bigint := 86400000000;
    -- Jobs end at the time of their statement, and are visible after its commit.
    slack constant bigint := 600000000;
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    before bigint := now_us - p_keep;
    low bigint;
    reached bigint;
    removed integer;
    pruned integer;
begin
    if not pg_try_advisory_xact_lock(1229870160, hashtext(p_namespace)) then
        return 0;
    end if;
    perform interlock.job_make_days(now_us);
    delete from interlock.job_result r
    where r.id = any (array(
        select x.id from interlock.job_result x
        where x.namespace = p_namespace and x.kept_until <= now_us order by x.kept_until limit p_max));
    get diagnostics pruned = row_count;
    if pruned >= p_max then
        return pruned;
    end if;
    removed := interlock.job_drop_day(p_namespace, before);
    pruned := pruned + removed;
    if removed > 0 then
        return pruned;
    end if;
    if p_clock is null and p_keep >= day
       and not exists (select from interlock.job_namespace n where n.namespace <> p_namespace)
    then
        delete from interlock.job_history_rest h
        where h.ctid = any (array(
            select x.ctid from interlock.job_history_rest x
            where x.finished_at <= before and x.pool >= p_namespace || '/' and x.pool < p_namespace || '0'
            order by x.finished_at limit p_max - pruned));
        get diagnostics removed = row_count;
    else
        low := (select n.pruned_to from interlock.job_namespace n where n.namespace = p_namespace);
        low := least(coalesce(low, 0), before);
        with old as materialized (
            select h.tableoid, h.ctid, h.finished_at from interlock.job_history h
            where h.finished_at > low and h.finished_at <= before
              and h.pool >= p_namespace || '/' and h.pool < p_namespace || '0'
            order by h.finished_at limit p_max - pruned
        ),
        gone as (
            delete from interlock.job_history h using old
            where h.ctid = old.ctid and h.tableoid = old.tableoid and h.finished_at = old.finished_at
        )
        select count(*), max(old.finished_at) into removed, reached from old;
        if pruned + removed < p_max then
            reached := before;
        end if;
        update interlock.job_namespace n set pruned_to = reached - slack
        where n.namespace = p_namespace and n.pruned_to < reached - slack;
    end if;
    pruned := pruned + removed + interlock.job_prune_logs(p_namespace, before, p_max);
    pruned := pruned + interlock.job_prune_keys(p_namespace, now_us, p_max);
    delete from interlock.job_resubmitted a where a.at < interlock.micros(interlock.now_or(p_clock)) - 3600000000;
    delete from interlock.job_session c
    where c.namespace = p_namespace and c.seen_at < before - 2 * day
      and not exists (select from interlock.session s where s.namespace = c.namespace and s.id = c.session)
      and not exists (select from interlock.job_fetched x where x.session = c.session and x.namespace = c.namespace);
    return pruned;
end
$$;
