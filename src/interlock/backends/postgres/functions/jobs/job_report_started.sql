-- Record that jobs which a session has fetched have started. Earlier reports about fetches that have ended are dropped.
create or replace function interlock.job_report_started(
    p_namespace text, p_session text, p_ids bigint[], p_fences bigint[]
) returns void
language sql volatile
as $$
    insert into interlock.job_started as s (session_id, namespace, ids, fences)
    select c.id, c.namespace, p_ids, p_fences
    from interlock.job_session c where c.namespace = p_namespace and c.session = p_session
    on conflict (session_id) do update
    set (ids, fences) = (
        select array_agg(u.id), array_agg(u.fence)
        from (
            select x.id, x.fence
            from unnest(s.ids, s.fences) as x (id, fence)
            join interlock.job_fetched f on f.fence = x.fence and x.id = any (f.ids)
            union
            select y.id, y.fence from unnest(excluded.ids, excluded.fences) as y (id, fence)
        ) u)
$$;
