-- Find the session that fetches. id: its number in job_session, null if it is not live. refused: this fetch was given up
-- before it began, and must not take place.
-- planner: caller
create or replace function interlock.job_fetch_session(
    p_namespace text, p_session text, p_fetch_number bigint, p_now bigint, out id bigint, out refused boolean
)
language plpgsql volatile
as $$
declare
    seen_at bigint;
begin
    refused := false;
    select coalesce(c.id, 0), c.seen_at into id, seen_at
    from interlock.session s
    left join interlock.job_session c on c.namespace = s.namespace and c.session = s.id
    where s.namespace = p_namespace and s.id = p_session and s.expires_at > to_timestamp(p_now / 1e6);
    if not found then
        return;
    end if;
    if seen_at is null or seen_at < p_now - 3600000000 then
        insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
        -- A pause cannot see the row of a session before its first fetch commits, so it locks this one too.
        perform from interlock.job_namespace n where n.namespace = p_namespace for share;
        insert into interlock.job_session as c (namespace, session, host, pid, program, seen_at)
        select s.namespace, s.id, s.host, s.pid, s.program, p_now
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set seen_at = excluded.seen_at
        returning c.id into id;
    end if;
    if p_fetch_number > 0 then
        -- Locked, so that job_return_unstarted sees either this fetch or that it does not take place.
        perform from interlock.job_session c where c.id = job_fetch_session.id for share;
        refused := exists (
            select from interlock.job_session c where c.id = job_fetch_session.id and c.refused_fetches >= p_fetch_number);
    end if;
end
$$;
