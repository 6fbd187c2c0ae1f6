-- Make a reservation unless it exists, and start it if p_start is set and its turn has come. answer is started, waiting
-- (for its time, or in the queue if begins_at is null), ended or full.
create or replace function interlock.limit_ask(
    p_namespace text, p_owner text, p_caller text, p_session text, p_keys text[], p_mosts integer[], p_pers bigint[],
    p_start boolean, p_turn bigint, p_stale bigint, p_full integer, p_alone boolean, p_clock double precision,
    out answer text, out begins_at bigint, out waits_for text, out ahead integer, out recheck_in double precision,
    out differs text
)
language plpgsql volatile
as $$
declare
    now_is timestamptz;
    now_us bigint;
    fresh bigint;
    me record;
    mine boolean;
    s record;
    figure record;
    keys text[] := p_keys;
    mosts integer[] := p_mosts;
    pers bigint[] := p_pers;
    longest bigint[];      -- per key, of all who know it
    pace_keys text[] := '{}';
    pace_mosts integer[] := '{}';
    pace_pers bigint[] := '{}';
    pace_jobs integer[] := '{}';
    slot_keys text[] := '{}';
    frees integer[] := '{}';
    aheads integer[] := '{}';
    jobs_aheads integer[] := '{}';
    jobs_taken integer[] := '{}';
    jobs record;
    line integer;
    ends timestamptz[] := '{}';
    my_ticket bigint;
    my_at bigint;
    my_asked bigint;
    new_wait_kind smallint := 0;
    new_waits_for text := '';
    fit bigint;
    moved boolean;
    turn_at bigint;
    since bigint;
begin
    perform interlock.limit_lock(p_namespace, keys);
    now_is := interlock.now_or(p_clock);
    now_us := interlock.micros(now_is);
    fresh := now_us - p_stale;
    waits_for := '';
    ahead := 0;
    differs := '';
    if not coalesce(interlock.session_expiry(p_namespace, p_session) > now_is, false) then
        answer := 'ended';
        return;
    end if;

    select array_agg(u.key order by u.key collate "C") as keys, array_agg(u.max_count order by u.key collate "C") as mosts,
           array_agg(u.per order by u.key collate "C") as pers, min(u.ticket) as ticket, min(u.asked_at) as asked_at,
           min(u.at) as at, bool_or(u.started) as started, min(u.wait_kind) as wait_kind, min(u.waits_for) as waits_for,
           bool_and(not u.started and greatest(u.last_asked, u.at) < fresh) as stale
    into me from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner;
    mine := me.ticket is not null;
    if mine and me.keys <> keys then
        -- Its limits are those of its first request. Keys are locked in order.
        perform from interlock.job_limit k where k.namespace = p_namespace and k.key = any (me.keys) for update nowait;
    end if;
    if mine and me.stale then
        delete from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner;
        mine := false;
    end if;
    if mine then
        keys := me.keys;
        mosts := me.mosts;
        pers := me.pers;
        my_at := me.at;
    end if;
    my_ticket := case when mine then me.ticket else 9223372036854775807 end;
    my_asked := case when mine then me.asked_at else now_us end;

    -- The state of each key, without this reservation.
    perform interlock.limit_settle(p_namespace, keys, now_is, fresh);
    longest := pers;
    for i in 1 .. cardinality(keys) loop
        loop
            select count(*) filter (where u.live)::integer as live, count(*) filter (where u.dead) as dead,
                   count(*) filter (where u.live and u.started)::integer as started,
                   count(*) filter (where u.live and u.waiting and u.ticket < my_ticket)::integer as ahead,
                   min(u.ends_at) filter (where u.live and (u.started or u.waiting and u.ticket < my_ticket)) as ends_at,
                   min(u.max_count) filter (where u.live) as least_most, max(u.max_count) filter (where u.live) as most_most,
                   min(u.per) filter (where u.live) as least_per, max(u.per) filter (where u.live) as most_per,
                   min(u.max_count) filter (where u.live and u.per = 0) as slots
            into s from interlock.limit_uses(p_namespace, keys[i], now_is, fresh) u where u.owner <> p_owner;
            exit when s.dead = 0;
            perform interlock.limit_drop_dead_holders(p_namespace, keys[i], now_is);
        end loop;
        if not mine and s.live >= p_full then
            answer := 'full';
            waits_for := keys[i];
            return;
        end if;
        jobs := interlock.limit_jobs(p_namespace, keys[i], my_ticket, now_is);
        if jobs.override_count is not null then
            longest[i] := jobs.override_per;
            s.slots := case when jobs.override_per = 0 then jobs.override_count end;
            if jobs.override_per > 0 then
                pace_keys := pace_keys || keys[i];
                pace_mosts := pace_mosts || jobs.override_count;
                pace_pers := pace_pers || jobs.override_per;
                pace_jobs := pace_jobs || jobs.ahead;
            end if;
        else
            if s.live > 0
               and (s.least_most, s.most_most, s.least_per, s.most_per) is distinct from (mosts[i], mosts[i], pers[i], pers[i])
               or jobs.mosts <> '{}' and (jobs.mosts, jobs.pers) <> (array[mosts[i]], array[pers[i]])
            then
                if differs = '' then
                    differs := keys[i];
                end if;
                for figure in
                    select u.max_count, u.per from interlock.limit_uses(p_namespace, keys[i], now_is, fresh) u
                    where u.live and u.owner <> p_owner and (u.max_count, u.per) <> (mosts[i], pers[i])
                    union
                    select u.max_count, u.per from unnest(jobs.mosts, jobs.pers) as u (max_count, per)
                    where (u.max_count, u.per) <> (mosts[i], pers[i])
                loop
                    longest[i] := greatest(longest[i], figure.per);
                    if figure.per = 0 then
                        s.slots := least(s.slots, figure.max_count);
                    else
                        pace_keys := pace_keys || keys[i];
                        pace_mosts := pace_mosts || figure.max_count;
                        pace_pers := pace_pers || figure.per;
                        pace_jobs := pace_jobs || jobs.ahead;
                    end if;
                end loop;
            end if;
            if pers[i] > 0 then
                pace_keys := pace_keys || keys[i];
                pace_mosts := pace_mosts || mosts[i];
                pace_pers := pace_pers || pers[i];
                pace_jobs := pace_jobs || jobs.ahead;
            else
                s.slots := least(s.slots, mosts[i]);
            end if;
        end if;
        if s.slots is not null then
            slot_keys := slot_keys || keys[i];
            frees := frees || (s.slots - s.started - jobs.taken);
            aheads := aheads || s.ahead;
            jobs_aheads := jobs_aheads || jobs.ahead;
            jobs_taken := jobs_taken || jobs.taken;
            ends := ends || coalesce(s.ends_at, 'infinity');
        end if;
    end loop;

    if mine and me.started then
        answer := 'started';
        begins_at := me.at;
        return;
    end if;

    -- Its time. A reservation that is due is checked against actual starts.
    if mine and my_at <= now_us then
        for i in 1 .. cardinality(pace_keys) loop
            if (select count(*) from interlock.limit_start t
                where t.namespace = p_namespace and t.key = pace_keys[i] and t.at > now_us - pace_pers[i])
               + (select count(*) from interlock.job_limit_start t
                  where t.namespace = p_namespace and t.key = pace_keys[i] and t.at > now_us - pace_pers[i]) >= pace_mosts[i]
            then
                my_at := null;
            end if;
        end loop;
    elsif mine then
        new_waits_for := me.waits_for;
    end if;
    if my_at is null then
        my_at := now_us;
        loop
            moved := false;
            for i in 1 .. cardinality(pace_keys) loop
                fit := interlock.limit_fit(
                    p_namespace, pace_keys[i], pace_mosts[i], pace_pers[i], my_at, my_ticket, pace_jobs[i], now_is,
                    fresh);
                if fit > my_at then
                    my_at := fit;
                    new_waits_for := pace_keys[i];
                    moved := true;
                end if;
            end loop;
            exit when not moved or cardinality(pace_keys) = 1;
        end loop;
    end if;

    answer := 'waiting';
    if my_at > now_us then
        new_wait_kind := 2;
        waits_for := new_waits_for;
        begins_at := my_at;
        recheck_in := (my_at - now_us) / 1e6;
    else
        -- Its slots: it queues under the first key that has no room.
        for i in 1 .. cardinality(slot_keys) loop
            -- Jobs that wait alone record no time: their turn begins with the first reservation behind them. All jobs
            -- together count for the free slots at most, so that jobs that no worker starts delay it by one turn.
            if not mine and jobs_aheads[i] > 0 and aheads[i] = 0 then
                update interlock.job_limit k set free_since = now_us
                where k.namespace = p_namespace and k.key = slot_keys[i];
            end if;
            line := aheads[i] + least(jobs_aheads[i], greatest(frees[i], 0));
            continue when frees[i] > line;
            turn_at := null;
            if frees[i] > 0 then
                select coalesce(k.free_since, 0) + (line - frees[i] + 1) * p_turn into turn_at
                from interlock.job_limit k where k.namespace = p_namespace and k.key = slot_keys[i];
                continue when turn_at <= now_us;
            end if;
            new_wait_kind := 1;
            new_waits_for := slot_keys[i];
            waits_for := slot_keys[i];
            ahead := aheads[i] + jobs_aheads[i];
            if ends[i] < 'infinity' then
                recheck_in := greatest(0, extract(epoch from ends[i] - now_is));
            end if;
            recheck_in := least(recheck_in, (turn_at - now_us) / 1e6);
            if jobs_taken[i] > 0 and aheads[i] = 0 then
                -- An acknowledgement that runs at the same time does not see this reservation and notifies nobody.
                recheck_in := least(
                    recheck_in, case when mine and me.wait_kind = 1 and me.waits_for = waits_for then 1 else 0.1 end);
            end if;
            exit;
        end loop;
        if new_wait_kind = 0 and p_start then
            answer := 'started';
            begins_at := now_us;
            my_at := now_us;
            new_waits_for := '';
        elsif new_wait_kind = 0 then
            begins_at := my_at;
            recheck_in := p_turn / 1e6;
            new_waits_for := '';
            if cardinality(slot_keys) > 0 then
                new_wait_kind := 1;
                new_waits_for := slot_keys[1];
                line := aheads[1] + least(jobs_aheads[1], greatest(frees[1], 0));
                since := now_us - greatest(0, line - frees[1] + 1) * p_turn;
                update interlock.job_limit k set free_since = since
                where k.namespace = p_namespace and k.key = new_waits_for and coalesce(k.free_since, 0) < since;
            end if;
        end if;
    end if;

    if not mine or answer = 'started' or (my_at, new_wait_kind, new_waits_for) is distinct from (me.at, me.wait_kind, me.waits_for) then
        perform interlock.durably();
    elsif p_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if mine then
        update interlock.limit_use u
        set last_asked = now_us, at = my_at, started = answer = 'started', wait_kind = new_wait_kind, waits_for = new_waits_for
        where u.namespace = p_namespace and u.owner = p_owner;
    else
        my_ticket := nextval('interlock.job_ticket');
        insert into interlock.limit_use
            (namespace, key, ticket, owner, caller, session, max_count, per, asked_at, last_asked, at, started, wait_kind, waits_for)
        select p_namespace, x.key, my_ticket, p_owner, p_caller, p_session, x.max_count, x.per, now_us, now_us, my_at,
               answer = 'started', new_wait_kind, new_waits_for
        from unnest(keys, mosts, pers) as x (key, max_count, per);
    end if;
    if answer = 'started' then
        for i in 1 .. cardinality(keys) loop
            continue when longest[i] = 0;
            delete from interlock.limit_start t
            where t.namespace = p_namespace and t.key = keys[i] and t.at <= now_us - longest[i]
              and t.counts_until <= now_us;
            insert into interlock.limit_start
                (namespace, key, at, ticket, counts_until, owner, caller, session, host, pid, program, max_count, per, asked_at)
            select p_namespace, keys[i], now_us, my_ticket, now_us + longest[i], p_owner, p_caller, p_session, x.host,
                   x.pid, x.program, mosts[i], pers[i], my_asked
            from interlock.session x where x.namespace = p_namespace and x.id = p_session;
        end loop;
        for i in 1 .. cardinality(slot_keys) loop
            -- Jobs may have freed more than one slot unnoticed.
            if jobs_taken[i] > 0 and frees[i] > 1 then
                perform interlock.limit_notify_next(p_namespace, slot_keys[i], '', now_is, fresh);
            end if;
        end loop;
    else
        -- What was reserved for it under the key it queued for before is available to those behind it; and those ahead
        -- of it may not know that there is room.
        if mine and me.wait_kind = 1 and me.waits_for <> new_waits_for then
            perform interlock.limit_notify_next(p_namespace, me.waits_for, '', now_is, fresh);
            perform interlock.limit_wake_jobs(p_namespace, array[me.waits_for]);
        end if;
        if turn_at is not null and new_wait_kind = 1 and begins_at is null then
            perform interlock.limit_notify_next(p_namespace, new_waits_for, '', now_is, fresh);
        end if;
    end if;
end
$$;
