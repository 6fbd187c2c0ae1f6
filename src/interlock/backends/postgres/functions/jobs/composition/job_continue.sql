-- Let jobs continue that wait for others which have ended, at most p_max of them. The caller has locked the dependencies of
-- the namespace. Such a job takes its position and its time now, as a scheduled one does when it is due. unfinished:
-- whether there may be more, or some that another transaction is ending. moved: whether any job was found that waited.
-- signalled: the lanes of those that have one. pools, sorts: where jobs became ready.
-- planner: lookups
create or replace function interlock.job_continue(
    p_namespace text, p_now bigint, p_max integer,
    out unfinished boolean, out moved boolean, out signalled text[], out pools text[], out sorts bigint[]
)
language plpgsql volatile
as $$
declare
    tids tid[];
    all_needs bigint[];
    live bigint[];
    stable bigint[];
    left_over bigint[];
    need record;
    touched bigint[] := '{}';
    waiting bigint[];
    free bigint[];
    locked bigint[];
    budget integer := p_max;
begin
    unfinished := false;
    moved := false;
    select array_agg(s.ctid), array_agg(distinct s.needs) into tids, all_needs
    from (
        select s.ctid, s.needs from interlock.job_after_signal s
        where s.namespace = p_namespace order by s.number limit 100
    ) s;
    if tids is null then
        return;
    end if;
    live := array(select j.id from interlock.job j where j.id = any (all_needs));
    -- A job that is not locked now has not begun to end: when it ends, that transaction will see who waits for it. One that
    -- is locked may be ending without having seen them, and is looked at again. The locks are not kept: acknowledgements
    -- would wait for this whole fetch.
    begin
        stable := array(select j.id from interlock.job j where j.id = any (live) for key share skip locked);
        raise sqlstate 'IL000';
    exception when sqlstate 'IL000' then
        null;
    end;
    left_over := array(select u.id from unnest(live) as u (id) where u.id <> all (stable));
    for need in
        select u.id, h.state, h.superseded_by, h.error
        from unnest(all_needs) as u (id)
        left join lateral (
            select h.state, h.superseded_by, h.error from interlock.job_history h where h.id = u.id limit 1) h on true
        where u.id <> all (live)
    loop
        if budget <= 0 or exists (select from interlock.job j where j.id = need.id) then
            left_over := left_over || need.id;
            continue;
        end if;
        waiting := array(
            select a.id from interlock.job_after a
            where a.needs = need.id and (not a.failed or need.state in (interlock.state_done(), interlock.state_superseded()))
            order by a.id limit budget);
        if cardinality(waiting) = budget then
            left_over := left_over || need.id;
        end if;
        budget := budget - cardinality(waiting);
        continue when waiting = '{}';
        if need.state = interlock.state_superseded() then
            insert into interlock.job_after (needs, id, if_failed)
            select need.superseded_by, a.id, a.if_failed from interlock.job_after a
            where a.needs = need.id and a.id = any (waiting)
            on conflict do nothing;
            insert into interlock.job_after_signal (namespace, needs) values (p_namespace, need.superseded_by);
        elsif need.state is distinct from interlock.state_done() then
            free := array(
                select a.id from interlock.job_after a
                where a.needs = need.id and a.id = any (waiting) and a.if_failed = interlock.if_failed_cancel()
                order by a.id);
            -- A session that begins to watch some of them locks them in another order, so it is not waited for.
            locked := array(
                select j.id from interlock.job j where j.id = any (free) order by j.id for update skip locked);
            locked := array(
                select j.id from interlock.job j where j.id = any (free) and j.id <> all (locked));
            if locked <> '{}' then
                left_over := left_over || need.id;
                free := array(select u.id from unnest(free) as u (id) where u.id <> all (locked));
                waiting := array(select u.id from unnest(waiting) as u (id) where u.id <> all (locked));
            end if;
            if free <> '{}' then
                delete from interlock.job_after a where a.id = any (free);
                perform interlock.job_end(
                    p_namespace, free, interlock.state_cancelled(), null,
                    'cancelled because ' || interlock.job_failed_need(need.id, need.state, need.error), p_now);
            end if;
            update interlock.job j set parked = interlock.job_failed_need(need.id, need.state, need.error)
            from interlock.job_after a
            where a.needs = need.id and a.id = any (waiting) and a.if_failed = interlock.if_failed_park() and j.id = a.id;
            update interlock.job_after a set failed = true
            where a.needs = need.id and a.id = any (waiting) and a.if_failed = interlock.if_failed_park();
        end if;
        delete from interlock.job_after a where a.needs = need.id and a.id = any (waiting) and not a.failed;
        if need.state = interlock.state_done() or need.state = interlock.state_superseded() then
            delete from interlock.job_after a where a.needs = need.id and a.id = any (waiting);
        end if;
        touched := touched || waiting;
    end loop;
    delete from interlock.job_after_signal s where s.ctid = any (tids) and s.needs <> all (left_over);
    unfinished := exists (select from interlock.job_after_signal s where s.namespace = p_namespace);
    moved := touched <> '{}';
    if not moved then
        return;
    end if;
    update interlock.job j set parked = null
    where j.id = any (touched) and j.parked is not null
      and not exists (select from interlock.job_after a where a.id = j.id and a.failed);
    free := array(
        select distinct u.id from unnest(touched) as u (id)
        where not exists (select from interlock.job_after a where a.id = u.id) order by u.id);
    if free <> '{}' then
        select r.signalled, r.pools, r.sorts into signalled, pools, sorts
        from interlock.job_unblock(p_namespace, free, p_now) r;
    end if;
end
$$;
