-- Decide about a job that has several limits, or one that is not on slots: take it under all of them, or let it wait in
-- the queue of the first one that has no room, or leave it where slots get scarce. All keys are locked. What counts for a
-- rate is the latest time at which the worker starts the job. counts: how many were taken of each key in this fetch.
-- behind: it waits though there is room, which is for jobs ahead of it.
create or replace function interlock.job_admit(
    request interlock.fetch_request, p_id bigint, p_now bigint, inout counts jsonb, out decision smallint,
    out behind boolean
)
language plpgsql volatile
as $$
declare
    starts_at constant bigint := p_now + request.start_within;
    j record;
    mine bigint;
    use record;
    r record;
    room integer;
    kept integer;
    plans_until bigint;
    ahead integer;
    done integer;
    longest bigint;
begin
    select x.pool, x.name, x.lane, x.use_key, x.use_max_count, x.use_per, x.uses, x.ticket into j
    from interlock.job x where x.id = p_id;
    select w.ticket into mine from interlock.job_limit_wait w where w.id = p_id;
    decision := interlock.decision_take();
    behind := false;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u loop
        r := interlock.job_limit_room(request.namespace, use.key, use.max_count, use.per, p_now);
        room := r.room;
        kept := 0;
        plans_until := null;
        if r.rivals <> '{}' or r.plan_ats is not null then
            select b.kept, b.plans_until into kept, plans_until from interlock.job_limit_blocked(
                request.namespace, use.key, mine, p_now, r.rivals, r.plan_tickets, r.plan_ats, r.pace_mosts, r.pace_pers) b;
        end if;
        select count(*) into ahead from (
            select from interlock.job_limit_wait w
            where w.key = use.key and w.namespace = request.namespace and w.pool = j.pool and w.name = any (request.names)
              and w.ticket < coalesce(mine, 9223372036854775807) and w.id <> p_id
            limit greatest(room, 0)) x;
        if room <= ahead + kept or plans_until is not null then
            decision := interlock.decision_wait();
            behind := room > kept and plans_until is null;
            mine := coalesce(mine, j.ticket, nextval('interlock.job_ticket'));
            insert into interlock.job_limit_wait as w (id, ticket, per, max_count, namespace, key, pool, name)
            values (p_id, mine, use.per, use.max_count, request.namespace, use.key, j.pool, j.name)
            on conflict (id) do update
            set per = excluded.per, max_count = excluded.max_count, key = excluded.key, woken = false;
            update interlock.job x set apart = true where x.id = p_id and x.lane is not null;
            return;
        end if;
        done := coalesce((counts ->> use.key)::integer, 0);
        if use.per = 0 and done >= greatest(request.at_once, (room + done) / 2) then
            decision := interlock.decision_leave();
        end if;
    end loop;
    if decision = interlock.decision_leave() then
        return;
    end if;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u loop
        counts := counts || jsonb_build_object(use.key, coalesce((counts ->> use.key)::integer, 0) + 1);
        perform interlock.job_count(request.namespace, use.key, use.max_count, use.per, 1);
        select case when k.override_per is null then greatest(
                        use.per, k.per, (select max(split_part(f, '/', 2)::bigint) from jsonb_object_keys(k.figures) f),
                        (select max(u.per) from interlock.limit_use u
                         where k.shared and u.namespace = k.namespace and u.key = k.key))
                    else k.override_per end
        into longest from interlock.job_limit k where k.namespace = request.namespace and k.key = use.key;
        if longest > 0 then
            insert into interlock.job_limit_start (namespace, key, at, id, counts_until, fetched_at)
            values (request.namespace, use.key, starts_at, p_id, starts_at + longest, p_now);
        end if;
    end loop;
    delete from interlock.job_limit_wait w where w.id = p_id;
end
$$;
