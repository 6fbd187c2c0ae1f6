-- End jobs that have expired, at most p_max of them, wherever they wait. The caller has locked the dependencies of the
-- namespace. Jobs that are fetched are left to their workers; they expire here if they come back unstarted. What another
-- transaction has locked is left to the next fetch, and so is a lane that no fetch has seen while another one creates
-- lanes. unfinished: whether anything was left. lanes: those that were locked and have to be advanced.
-- planner: lookups
create or replace function interlock.job_expire(
    p_namespace text, p_now bigint, p_max integer, out unfinished boolean, out lanes text[]
)
language plpgsql volatile
as $$
declare
    fetched bigint[];
    one record;
    j interlock.job;
    over bigint[] := '{}';
    count integer := 0;
begin
    unfinished := false;
    lanes := '{}';
    fetched := array(select unnest(c.ids) from interlock.job_fetched c where c.namespace = p_namespace);
    for one in
        select e.ctid as tid, e.id from interlock.job_expiry e
        where e.namespace = p_namespace and e.at <= p_now order by e.at, e.id limit p_max for update skip locked
    loop
        count := count + 1;
        j := interlock.job_of(p_namespace, one.id);
        -- One that comes back from now on adds its expiry again, after this transaction; one that has come back expires.
        if j.id is null or j.expires_at is null or one.id = any (fetched) and exists (
            select from interlock.job_fetched c where c.namespace = p_namespace and one.id = any (c.ids))
        then
            delete from interlock.job_expiry e where e.ctid = one.tid;
            continue;
        end if;
        if j.lane is not null and j.lane <> all (lanes) then
            perform from interlock.job_lane l where l.lane = j.lane for update skip locked;
            if not found then
                if exists (select from interlock.job_lane l where l.lane = j.lane)
                   or not pg_try_advisory_xact_lock(1229870158, hashtext(p_namespace)) then
                    unfinished := true;
                    continue;
                end if;
                insert into interlock.job_lane (lane, low) values (j.lane, 0) on conflict do nothing;
                if not found then
                    unfinished := true;
                    continue;
                end if;
            end if;
            lanes := lanes || j.lane;
        end if;
        -- It may have been fetched, moved or started since it was read.
        select * into j from interlock.job x where x.id = one.id and x.expires_at is not null for update skip locked;
        if not found
           or exists (select from interlock.job_fetched c where c.namespace = p_namespace and one.id = any (c.ids))
           or not interlock.job_free_row(j) or not interlock.job_detach(p_namespace, j) then
            unfinished := true;
            continue;
        end if;
        delete from interlock.job_expiry e where e.ctid = one.tid;
        over := over || one.id;
    end loop;
    if over <> '{}' then
        perform interlock.job_end(p_namespace, over, interlock.state_expired(), null, null, p_now);
    end if;
    unfinished := unfinished or count = p_max;
end
$$;
