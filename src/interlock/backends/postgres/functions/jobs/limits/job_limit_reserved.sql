-- The live reservations on a key, as a fetch counts them: how many have started and with which figures; the tickets of those
-- for which a free slot is kept; the tickets and times of planned starts. opens_at: when their slots may become free without
-- a message. The caller has locked the key. If nothing is left of them, the key is no longer shared.
-- planner: index_reads
create or replace function interlock.job_limit_reserved(
    p_namespace text, p_key text, p_now bigint, out started integer, out mosts integer[], out pers bigint[],
    out rivals bigint[], out plan_tickets bigint[], out plan_ats bigint[], out opens_at bigint
)
language plpgsql volatile
as $$
declare
    turn constant bigint := interlock.limit_turn();
    since bigint;
begin
    select coalesce(k.free_since, 0) into since
    from interlock.job_limit k where k.namespace = p_namespace and k.key = p_key;
    select count(*) filter (where u.started), coalesce(array_agg(u.max_count), '{}'), coalesce(array_agg(u.per), '{}'),
           coalesce(array_agg(u.ticket order by u.ticket) filter (where u.waiting and p_now < since + turn), '{}'),
           array_agg(u.ticket) filter (where u.per > 0 and not u.started and not u.waiting and u.at + turn > p_now),
           array_agg(u.at) filter (where u.per > 0 and not u.started and not u.waiting and u.at + turn > p_now),
           interlock.micros(min(u.ends_at) filter (where u.started and u.per = 0))
    into started, mosts, pers, rivals, plan_tickets, plan_ats, opens_at
    from interlock.limit_uses(p_namespace, p_key, to_timestamp(p_now / 1e6), p_now - interlock.limit_stale()) u
    where u.live;
    if rivals <> '{}' then
        opens_at := least(opens_at, since + turn);
    end if;
    if mosts = '{}'
       and not exists (select from interlock.limit_use u where u.namespace = p_namespace and u.key = p_key)
       and not exists (select from interlock.limit_start s where s.namespace = p_namespace and s.key = p_key)
    then
        update interlock.job_limit k set shared = false where k.namespace = p_namespace and k.key = p_key;
    end if;
end
$$;
