-- End a reservation and notify the next ones in the queue. answer is finished, left (it never started) or unknown. A
-- reservation that is alone (p_alone) does not wait for the disk: if a crash of the server loses the end, the process
-- repeats it when it reconnects, and the next start waits for the disk and so for this.
create or replace function interlock.limit_finish(
    p_namespace text, p_session text, p_owner text, p_stale bigint, p_alone boolean, p_clock double precision,
    out answer text, out next_owners text[]
)
language plpgsql volatile
as $$
declare
    keys text[];
    now_is timestamptz;
    fresh bigint;
    gone record;
    room bigint;
    rooms bigint[] := '{}';
begin
    answer := 'unknown';
    next_owners := '{}';
    select array_agg(u.key order by u.key collate "C") into keys
    from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner and u.session = p_session;
    if keys is null then
        return;
    end if;
    perform interlock.limit_lock(p_namespace, keys);
    now_is := interlock.now_or(p_clock);
    fresh := interlock.micros(now_is) - p_stale;
    if not coalesce(interlock.session_expiry(p_namespace, p_session) > now_is, false) then
        return;
    end if;
    perform interlock.limit_settle(p_namespace, keys, now_is, fresh);
    -- Room is counted by rows here; null where the queue is empty.
    for i in 1 .. cardinality(keys) loop
        room := null;
        if exists (
            select from interlock.limit_use u
            where u.namespace = p_namespace and u.key = keys[i] and u.wait_kind = 1 and u.waits_for = u.key)
        then
            room := interlock.limit_free(p_namespace, keys[i], now_is, null);
        end if;
        rooms := rooms || room;
    end loop;
    with removed as (
        delete from interlock.limit_use u where u.namespace = p_namespace and u.owner = p_owner
        returning u.started, greatest(u.last_asked, u.at) as asked_at
    )
    select bool_or(r.started) as started, bool_or(r.started) or max(r.asked_at) >= fresh as kept into gone from removed r;
    if p_alone then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if gone.kept then
        answer := case when gone.started then 'finished' else 'left' end;
    end if;
    perform interlock.limit_wake_jobs(p_namespace, keys);
    for i in 1 .. cardinality(keys) loop
        continue when rooms[i] is null;
        room := interlock.limit_free(p_namespace, keys[i], now_is, null);
        if rooms[i] <= 0 and room > 0 then
            update interlock.job_limit k set free_since = interlock.micros(now_is)
            where k.namespace = p_namespace and k.key = keys[i];
        end if;
        next_owners := next_owners || interlock.limit_notify_next(p_namespace, keys[i], p_session, now_is, fresh);
    end loop;
    if answer = 'unknown' then
        next_owners := '{}';
    end if;
end
$$;
