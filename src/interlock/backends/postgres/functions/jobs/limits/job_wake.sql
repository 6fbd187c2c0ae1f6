-- Wake the first jobs in a key's queue as far as there is room, separately for each pool and name, because the worker
-- that fetches them may take only one of these. Also record when a rate lets the next one start. p_pool, p_names: what
-- the caller takes, if it is a fetch: these are one queue then, and jobs that would have room by themselves are woken a
-- second later, in case those before them are not taken. The caller has locked the key.
-- planner: index_reads
create or replace function interlock.job_wake(
    p_namespace text, p_key text, p_now bigint, p_pool text, p_names text[], out woken bigint[]
)
language plpgsql volatile
as $$
declare
    line_pool text := '';
    line_name text := '';
    last bigint;
    w record;
    r record;
    room integer;
    fit bigint;
    kept integer;
    plans_until bigint;
    max_count integer;
    per bigint;
    place integer;
    wake bigint;
begin
    woken := '{}';
    loop
        -- The next pool and name in the queue, in the order of the index.
        select x.pool, x.name into line_pool, line_name from interlock.job_limit_wait x
        where x.key = p_key and x.namespace = p_namespace and (x.pool, x.name) > (line_pool, line_name)
        order by x.pool, x.name limit 1;
        exit when not found;
        place := 0;
        for w in
            select x.id, x.ticket, x.max_count, x.per, x.woken from interlock.job_limit_wait x
            where x.key = p_key and x.namespace = p_namespace and x.pool = line_pool and x.name = line_name
            order by x.ticket limit 1000
        loop
            if (w.max_count, w.per) is distinct from (max_count, per) then
                r := interlock.job_limit_room(p_namespace, p_key, w.max_count, w.per, p_now);
                room := r.room;
                fit := r.fit_at;
                max_count := w.max_count;
                per := w.per;
                last := null;
            end if;
            kept := 0;
            plans_until := null;
            if r.rivals <> '{}' or r.plan_ats is not null then
                select b.kept, b.plans_until into kept, plans_until from interlock.job_limit_blocked(
                    p_namespace, p_key, w.ticket, p_now, r.rivals, r.plan_tickets, r.plan_ats, r.pace_mosts, r.pace_pers) b;
            end if;
            if place + kept >= room or plans_until is not null then
                wake := least(wake, fit, plans_until, r.opens_at);
                exit;
            end if;
            place := place + 1;
            if not w.woken then
                if line_pool = p_pool and line_name = any (p_names) then
                    if last is null then
                        select max(f.ticket) into last
                        from interlock.job_first_waiting(p_namespace, p_key, p_pool, p_names, room) f;
                    end if;
                    if w.ticket > last then
                        wake := least(wake, p_now + 1000000);
                        exit;
                    end if;
                end if;
                woken := woken || w.id;
            end if;
        end loop;
    end loop;
    update interlock.job_limit l set wake_at = wake
    where l.namespace = p_namespace and l.key = p_key and l.wake_at is distinct from wake;
    if cardinality(woken) > 0 then
        -- Jobs that are leaving the queue are not waited for; the next fetch handles those behind them.
        with here as materialized (
            select x.id from interlock.job_limit_wait x where x.id = any (job_wake.woken) for update skip locked
        ),
        changed as (
            update interlock.job_limit_wait x set woken = true from here where x.id = here.id returning x.id
        ),
        again as (
            insert into interlock.job_slot_freed (namespace, key, max_count, per, count)
            select p_namespace, p_key, 0, 0, 0
            where (select count(*) from here) < cardinality(job_wake.woken)
        )
        select coalesce(array_agg(changed.id), '{}') into woken from changed;
    end if;
end
$$;
