-- History is kept by the day, so that old days go as a whole. Days are made ahead; what falls on none goes to
-- job_history_rest. These functions run with the rights of the schema's owner, who alone may create and drop tables. So
-- they trust no caller: days are counted by the server's clock, names are fixed, and only workers may execute them.

create function interlock.job_day(p_at bigint) returns text
language sql immutable
as $$ select 'job_history_' || to_char(to_timestamp(p_at / 1000000) at time zone 'UTC', 'YYYYMMDD') $$;

-- Make today's table and the next two. A time more than a day from the server's clock counts as a day from it. Readers
-- that take long, or rows that are there already, put it off.
create function interlock.job_make_days(p_now bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    day constant bigint := 86400000000;
    server_now constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    first bigint;
    name text;
begin
    p_now := coalesce(least(greatest(p_now, server_now - day), server_now + day), server_now);
    for ahead in 0 .. 2 loop
        first := p_now / day * day + ahead * day;
        name := interlock.job_day(first);
        continue when to_regclass('interlock.' || name) is not null;
        begin
            execute format('create table interlock.%I (like interlock.job_history including all)', name);
            execute format('alter table interlock.job_history attach partition interlock.%I for values from (%s) to (%s)',
                           name, first, first + day);
        exception when lock_not_available or check_violation or duplicate_table or deadlock_detected then
            null;
        end;
    end loop;
end
$$;

-- Drop a day's table if it is older than p_before and no other namespace's rows can be in it. Never today's, whatever
-- p_before says. Returns about how many rows it had.
create function interlock.job_drop_day(p_namespace text, p_before bigint) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    old record;
    filled boolean;
begin
    p_before := least(p_before, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    for old in
        select c.relname, greatest(c.reltuples, 0)::integer as rows
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'interlock.job_history'::regclass and c.relname < interlock.job_day(p_before)
          and c.relname ~ '^job_history_[0-9]{8}$'
        order by c.relname limit 1000
    loop
        filled := exists (select from interlock.job_namespace n where n.namespace <> p_namespace);
        if filled then
            execute format('select exists (select from interlock.%I)', old.relname) into filled;
        end if;
        continue when filled;
        begin
            execute format('select exists (select from interlock.%I)', old.relname) into filled;
            execute format('drop table interlock.%I', old.relname);
            return greatest(old.rows, filled::integer);
        exception when lock_not_available or undefined_table or deadlock_detected then
            null;
        end;
    end loop;
    return 0;
end
$$;

-- Remove history that ended p_keep or longer ago, at most p_most rows or a whole day, and results past their time. History
-- that is kept for days goes by whole days where that can be, which is by the server's clock only. One process of a
-- namespace does this at a time; the others find nothing to do. Each call goes on where all before it has been removed, so that what it reads is what it removes.
create function interlock.job_prune(
    p_namespace text, p_keep bigint, p_most integer, p_given double precision
) returns integer
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    day constant bigint := 86400000000;
    -- Jobs end at the time of their statement, and are seen when that has committed.
    slack constant bigint := 600000000;
    now_us bigint := interlock.micros(interlock.now_or(p_given));
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
        where x.namespace = p_namespace and x.kept_until <= now_us order by x.kept_until limit p_most));
    get diagnostics pruned = row_count;
    if pruned >= p_most then
        return pruned;
    end if;
    removed := interlock.job_drop_day(p_namespace, before);
    pruned := pruned + removed;
    if removed > 0 then
        return pruned;
    end if;
    if p_given is null and p_keep >= day
       and not exists (select from interlock.job_namespace n where n.namespace <> p_namespace)
    then
        delete from interlock.job_history_rest h
        where h.ctid = any (array(
            select x.ctid from interlock.job_history_rest x
            where x.finished_at <= before and x.pool >= p_namespace || '/' and x.pool < p_namespace || '0'
            order by x.finished_at limit p_most - pruned));
        get diagnostics removed = row_count;
    else
        low := (select n.pruned_to from interlock.job_namespace n where n.namespace = p_namespace);
        low := least(coalesce(low, 0), before);
        with old as materialized (
            select h.tableoid, h.ctid, h.finished_at from interlock.job_history h
            where h.finished_at > low and h.finished_at <= before
              and h.pool >= p_namespace || '/' and h.pool < p_namespace || '0'
            order by h.finished_at limit p_most - pruned
        ),
        gone as (
            delete from interlock.job_history h using old
            where h.ctid = old.ctid and h.tableoid = old.tableoid and h.finished_at = old.finished_at
        )
        select count(*), max(old.finished_at) into removed, reached from old;
        if pruned + removed < p_most then
            reached := before;
        end if;
        update interlock.job_namespace n set pruned_to = reached - slack
        where n.namespace = p_namespace and n.pruned_to < reached - slack;
    end if;
    pruned := pruned + removed;
    delete from interlock.job_again a where a.at < interlock.micros(interlock.now_or(p_given)) - 3600000000;
    delete from interlock.job_crew c
    where c.namespace = p_namespace and c.seen_at < before - 2 * day
      and not exists (select from interlock.session s where s.namespace = c.namespace and s.id = c.session)
      and not exists (select from interlock.job_claimed x where x.session = c.session and x.namespace = c.namespace);
    return pruned;
end
$$;

select interlock.job_make_days((extract(epoch from clock_timestamp()) * 1000000)::bigint);
