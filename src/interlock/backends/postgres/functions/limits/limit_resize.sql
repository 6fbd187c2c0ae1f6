-- Set the figure of a limit or of one of its keys, or remove it if p_max_count is null. changed: whether something changed; the
-- rest: what was set before. All keys of the limit are locked, in order, after new ones can no longer be created.
create or replace function interlock.limit_resize(
    p_namespace text, p_name text, p_max_count integer, p_per bigint, p_attribution jsonb, p_clock double precision,
    out changed boolean, out max_count integer, out per bigint, out set_by text, out reason text, out set_at bigint
)
language plpgsql volatile
as $$
declare
    now_us bigint;
    actor constant text := p_attribution ->> 0;
    because constant text := p_attribution ->> 1;
    keys text[];
begin
    perform interlock.durably();
    perform pg_advisory_xact_lock(1229870159, hashtext(p_namespace));
    perform from interlock.job_limit l
    where l.namespace = p_namespace and (l.key = p_name or l.key > p_name || ':' and l.key < p_name || ';')
    order by l.key for update;
    now_us := interlock.micros(interlock.now_or(p_clock));
    select o.max_count, o.per, o.set_by, o.reason, o.set_at into max_count, per, set_by, reason, set_at
    from interlock.limit_override o where o.namespace = p_namespace and o.name = p_name;
    changed := (max_count, per) is distinct from (p_max_count, p_per)
               or p_max_count is not null and (set_by, reason) is distinct from (actor, because);
    if not changed then
        return;
    end if;
    if p_max_count is null then
        delete from interlock.limit_override o where o.namespace = p_namespace and o.name = p_name;
    else
        insert into interlock.limit_override as o (namespace, name, max_count, per, set_by, reason, set_at)
        values (p_namespace, p_name, p_max_count, p_per, actor, because, now_us)
        on conflict (namespace, name) do update
        set max_count = excluded.max_count, per = excluded.per, set_by = excluded.set_by, reason = excluded.reason,
            set_at = excluded.set_at;
        -- Starts that are still known count for a longer period too.
        update interlock.limit_start s set counts_until = s.at + p_per
        where s.namespace = p_namespace and (s.key = p_name or s.key > p_name || ':' and s.key < p_name || ';')
          and s.counts_until < s.at + p_per;
        update interlock.job_limit_start s set counts_until = s.at + p_per
        where s.namespace = p_namespace and (s.key = p_name or s.key > p_name || ':' and s.key < p_name || ';')
          and s.counts_until < s.at + p_per;
    end if;
    with resized as (
        update interlock.job_limit l
        set override_count = x.max_count, override_per = x.per, free_since = now_us
        from (
            select k.key, o.max_count, o.per from interlock.job_limit k
            left join lateral interlock.limit_override_of(p_namespace, k.key) o on true
            where k.namespace = p_namespace and (k.key = p_name or k.key > p_name || ':' and k.key < p_name || ';')
        ) x
        where l.namespace = p_namespace and l.key = x.key returning l.key
    )
    select array_agg(r.key) into keys from resized r;
    -- Plans are made again by the new figure.
    update interlock.limit_use u set at = now_us
    where u.namespace = p_namespace and not u.started and u.wait_kind = 2 and u.waits_for = any (keys);
    perform interlock.limit_wake_jobs(p_namespace, keys);
    perform interlock.limit_notify_waiting(p_namespace, keys, now_us);
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, case when p_max_count is null then 'limit.reset' else 'limit.resize' end, p_name,
        case when max_count is not null
             then json_build_object('count', max_count, 'per', per / 1e6::float8, 'by', set_by) end,
        case when p_max_count is not null
             then json_build_object('count', p_max_count, 'per', p_per / 1e6::float8, 'by', actor) end);
end
$$;
