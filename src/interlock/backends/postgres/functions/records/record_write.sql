-- Apply writes, each of which is one change or several that are made together or not at all. Changes are parallel arrays
-- in the order of their lock keys; p_writes says which belong together. A create has no expected version, a delete no
-- body. The arrays from p_actors on are the journal entries. They are no composite, because that copies each field. An
-- array may be null: of p_writes, if each change is a write of its own; of the subjects and versions of the entries, if
-- they are those of the changes; of owners, fences and causes, if there are none. The arrays of leases are those that a
-- write needs in addition to the leases of its changes: all changes of a write are lost unless all its leases are held.
-- Returns an answer for each change, in the same order: written, skipped, conflict, busy, lost, stale, or blocked, if
-- another transaction has locked the record and p_wait is false. docs/decisions/0058 says what is locked and why.
-- planner: lookups
create or replace function interlock.record_write(
    p_namespace text, p_writes integer[], p_kinds text[], p_ids text[], p_uids text[], p_expected bigint[],
    p_statuses text[], p_bodies text[], p_owners text[], p_fences bigint[], p_actors text[], p_reasons text[],
    p_actions text[], p_subject_kinds text[], p_subject_keys text[], p_befores text[], p_afters text[],
    p_from_versions bigint[], p_to_versions bigint[], p_cause_events bigint[], p_cause_jobs bigint[],
    p_cause_fences bigint[], p_wait boolean, p_clock double precision, p_lease_writes integer[] default null,
    p_lease_keys text[] default null, p_lease_owners text[] default null
) returns table (answer text, version bigint, at bigint, details jsonb)
language plpgsql volatile
as $$
declare
    now_is timestamptz;
    now_us bigint;
    added bigint[] := '{}';
    locked bigint[];
    unheld jsonb;
begin
    perform interlock.durably();
    if array_position(p_expected, null) is not null then
        -- Waits until another transaction that adds or deletes the same record ends.
        now_us := interlock.micros(interlock.now_or(p_clock));
        with new as (
            insert into interlock.record as r (
                version, fence, created_at, updated_at, namespace, kind, id, uid, status, body)
            select 0, u.fence, now_us, now_us, p_namespace, u.kind, u.id, u.uid, u.status, u.body
            from unnest(p_kinds, p_ids, p_uids, p_expected, p_statuses,
                        p_bodies, p_fences)
                 with ordinality as u (kind, id, uid, expected, status, body, fence, n)
            where u.expected is null
            order by u.n
            on conflict do nothing
            returning r.kind, r.id
        )
        select array_agg(u.n) into added
        from unnest(p_kinds, p_ids) with ordinality as u (kind, id, n)
        join new on new.kind = u.kind and new.id = u.id;
        added := coalesce(added, '{}');
    end if;
    if p_wait then
        select array_agg(x.n) into locked from (
            select u.n from unnest(p_kinds, p_ids) with ordinality as u (kind, id, n)
            join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
            order by u.n for no key update of r) x;
    else
        select array_agg(x.n) into locked from (
            select u.n from unnest(p_kinds, p_ids) with ordinality as u (kind, id, n)
            join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
            order by u.n for no key update of r skip locked) x;
    end if;
    locked := coalesce(locked, '{}');
    now_is := interlock.now_or(p_clock);
    now_us := interlock.micros(now_is);
    if p_lease_keys is not null then
        -- After the records were locked, as below. The records of these leases are not locked. So the time is read after
        -- the snapshot was taken: a writer that found such a lease expired cannot have committed before the snapshot.
        select jsonb_object_agg(x.write, x.about) into unheld from (
            select distinct on (u.write) u.write,
                   jsonb_build_array(case when k.ended_owner = u.owner then k.ended_why end, u.key) as about
            from unnest(p_lease_writes, p_lease_keys, p_lease_owners) with ordinality as u (write, key, owner, n)
            left join interlock.lock k on k.namespace = p_namespace and k.key = u.key
            left join interlock.session s on s.namespace = k.namespace and s.id = k.session
            where (k.owner = u.owner
                   and least(k.expires_at, coalesce(s.expires_at, 'epoch')) > interlock.now_or(p_clock)) is not true
            order by u.write, u.n) x;
    end if;

    -- A statement of its own: its snapshot is taken after the records were locked. So it sees every lease that was
    -- granted before, and the holder of a later one waits for this transaction when it reads the record.
    return query
    with judged as materialized (
        select u.*, coalesce(u.write, u.n) as part, r.version as found, u.n = any (added) as is_added,
               case when u.n = any (added) then r.updated_at else greatest(r.updated_at, now_us) end as written_at,
               case when r.id is not null and u.n <> all (locked) then 'blocked'
                    when u.owner is null and l.live then 'busy'
                    when u.owner is not null and (l.live and l.owner = u.owner) is not true then 'lost'
                    when unheld is not null and unheld ? u.write::text then 'lost'
                    when u.fence < r.fence then 'stale'
                    when u.n = any (added) then 'written'
                    when u.expected is null and r.id is null then 'blocked' -- deleted after the attempt to add it
                    when (r.version = u.expected and r.uid = u.uid) is not true then 'conflict'
                    else 'written' end as verdict,
               case when u.owner is null and l.live then l.holder
                    when u.owner is not null and (l.live and l.owner = u.owner) is not true
                    then case when l.ended_owner = u.owner then to_jsonb(l.ended_why) end
                    when unheld is not null and unheld ? u.write::text then unheld -> u.write::text
                    when u.fence < r.fence then to_jsonb(r.fence) end as about
        from unnest(
            p_writes, p_kinds, p_ids, p_uids, p_expected, p_statuses,
            p_bodies, p_owners, p_fences, p_actors, p_reasons, p_actions,
            p_subject_kinds, p_subject_keys, p_befores, p_afters,
            p_from_versions, p_to_versions, p_cause_events, p_cause_jobs,
            p_cause_fences) with ordinality as u (
            write, kind, id, uid, expected, status, body, owner, fence, actor, reason, action, subject_kind, subject_key,
            before, after, from_version, to_version, cause_event, cause_job, cause_fence, n)
        left join interlock.record r on r.namespace = p_namespace and r.kind = u.kind and r.id = u.id
        left join lateral (
            select k.owner, k.ended_owner, k.ended_why, interlock.lock_holder(k, s) as holder,
                   k.owner is not null and least(k.expires_at, coalesce(s.expires_at, 'epoch')) > now_is as live
            from interlock.lock k
            left join interlock.session s on s.namespace = k.namespace and s.id = k.session
            where k.namespace = p_namespace and k.key = 'record:' || u.kind || ':' || u.id
        ) l on true
    ),
    decided as materialized (
        select j.*, j.verdict = 'written' and j.part = any (array(
                   select x.part from judged x where x.verdict <> 'written')) as is_skipped
        from judged j
    ),
    updated as (
        update interlock.record r
        set version = r.version + 1, status = d.status, body = d.body, updated_at = d.written_at,
            fence = greatest(r.fence, d.fence)
        from decided d
        where d.verdict = 'written' and not d.is_skipped and d.expected is not null and d.body is not null
          and r.namespace = p_namespace and r.kind = d.kind and r.id = d.id
    ),
    deleted as (
        delete from interlock.record r using decided d
        where (d.verdict = 'written' and not d.is_skipped and d.body is null
               or d.is_added and (d.verdict <> 'written' or d.is_skipped))
          and r.namespace = p_namespace and r.kind = d.kind and r.id = d.id
    ),
    journaled as (
        insert into interlock.journal (
            at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after,
            cause_event, cause_job, cause_fence)
        select now_us, p_namespace, d.actor, d.reason, d.action, coalesce(d.subject_kind, 'record'),
               coalesce(d.subject_key, d.kind || ':' || d.id),
               case when p_from_versions is null then d.expected else d.from_version end,
               case when p_to_versions is not null then d.to_version
                    when d.body is not null then coalesce(d.expected + 1, 0) end,
               d.before::json, d.after::json, d.cause_event, d.cause_job, d.cause_fence
        from decided d where d.verdict = 'written' and not d.is_skipped order by d.n
    )
    select case when d.is_skipped then 'skipped' else d.verdict end,
           case when d.verdict <> 'written' or d.body is null or d.is_added then d.found else d.found + 1 end,
           d.written_at, d.about
    from decided d order by d.n;
end
$$;
