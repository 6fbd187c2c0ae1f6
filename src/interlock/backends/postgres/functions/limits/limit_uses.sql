-- A key's reservations, and whether each counts: whether its session is live, and whether it is fresh, that is
-- requested or planned since p_fresh.
create or replace function interlock.limit_uses(p_namespace text, p_key text, p_now timestamptz, p_fresh bigint)
returns table (
    ticket bigint, owner text, session text, max_count integer, per bigint, at bigint, started boolean, waiting boolean,
    ends_at timestamptz, dead boolean, live boolean
)
language sql stable
as $$
    select u.ticket, u.owner, u.session, u.max_count, u.per, u.at, u.started, u.wait_kind = 1 and u.waits_for = u.key, s.expires_at,
           s.expires_at is null or s.expires_at <= p_now,
           coalesce(s.expires_at > p_now, false)
           and (u.started or greatest(u.last_asked, u.at) >= p_fresh)
    from interlock.limit_use u
    left join interlock.session s on s.namespace = u.namespace and s.id = u.session
    where u.namespace = p_namespace and u.key = p_key
$$;
