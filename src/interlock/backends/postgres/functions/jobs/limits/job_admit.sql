-- Judge a job whose limits are several or have a pace: take them all, or have it wait in the line of the first that
-- has no room, or leave it as it is if slots are getting scarce. verdict and behind as in job_check_limits. All of its keys are
-- locked. p_names: what the fetcher takes; p_within: after what time it starts the job at the latest, which is what
-- counts for a pace; p_counts: how many were taken of each key in this fetch.
create or replace function interlock.job_admit(
    p_namespace text, p_id bigint, p_names text[], p_at_once integer, p_now bigint, p_within bigint, inout p_counts jsonb,
    out verdict smallint, out behind boolean
)
language plpgsql volatile
as $$
declare
    j record;
    mine bigint;
    use record;
    room integer;
    ahead integer;
    done integer;
    longest bigint;
begin
    select x.pool, x.name, x.lane, x.use_key, x.use_most, x.use_per, x.uses, x.ticket into j
    from interlock.job x where x.id = p_id;
    select w.ticket into mine from interlock.job_limit_wait w where w.id = p_id;
    verdict := 1;
    behind := false;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u loop
        select r.room into room from interlock.job_limit_room(p_namespace, use.key, use.most, use.per, p_now) r;
        select count(*) into ahead from (
            select from interlock.job_limit_wait w
            where w.key = use.key and w.namespace = p_namespace and w.pool = j.pool and w.name = any (p_names)
              and w.ticket < coalesce(mine, 9223372036854775807) and w.id <> p_id
            limit greatest(room, 0)) x;
        if room <= ahead then
            verdict := 2;
            behind := room > 0;
            mine := coalesce(mine, j.ticket, nextval('interlock.job_ticket'));
            insert into interlock.job_limit_wait as w (id, ticket, per, most, namespace, key, pool, name)
            values (p_id, mine, use.per, use.most, p_namespace, use.key, j.pool, j.name)
            on conflict (id) do update
            set per = excluded.per, most = excluded.most, key = excluded.key, woken = false;
            update interlock.job x set apart = true where x.id = p_id and x.lane is not null;
            return;
        end if;
        done := coalesce((p_counts ->> use.key)::integer, 0);
        if use.per = 0 and done >= greatest(p_at_once, (room + done) / 2) then
            verdict := 0;
        end if;
    end loop;
    if verdict = 0 then
        return;
    end if;
    for use in select u.* from interlock.job_uses(j.use_key, j.use_most, j.use_per, j.uses) u loop
        p_counts := p_counts || jsonb_build_object(use.key, coalesce((p_counts ->> use.key)::integer, 0) + 1);
        perform interlock.job_count(p_namespace, use.key, use.most, use.per, 1);
        select greatest(use.per, k.per, (
                   select max(split_part(f, '/', 2)::bigint) from jsonb_object_keys(k.figures) f))
        into longest from interlock.job_limit k where k.namespace = p_namespace and k.key = use.key;
        if longest > 0 then
            insert into interlock.job_limit_start (namespace, key, at, id, counts_until, fetched_at)
            values (p_namespace, use.key, p_now + p_within, p_id, p_now + p_within + longest, p_now);
        end if;
    end loop;
    delete from interlock.job_limit_wait w where w.id = p_id;
end
$$;
