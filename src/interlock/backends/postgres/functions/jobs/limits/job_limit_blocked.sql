-- Whether reservations that asked before a job are in its way, though the key has room: how many slots are kept for them,
-- and when to look again because of their planned starts. room: what job_limit_room returned. p_ticket: null for a job that
-- has not queued yet.
create or replace function interlock.job_limit_blocked(
    p_namespace text, p_key text, p_ticket bigint, p_now bigint, p_rivals bigint[], p_plan_tickets bigint[],
    p_plan_ats bigint[], p_pace_mosts integer[], p_pace_pers bigint[], out kept integer, out plans_until bigint
)
language plpgsql stable
as $$
declare
    last constant bigint := coalesce(p_ticket, 9223372036854775807);
begin
    kept := (select count(*) from unnest(p_rivals) as r (ticket) where r.ticket < last);
    if p_plan_ats is not null then
        plans_until := interlock.job_plans_until(
            p_namespace, p_key, p_pace_mosts, p_pace_pers,
            (select array_agg(p.at) from unnest(p_plan_tickets, p_plan_ats) as p (ticket, at) where p.ticket < last), p_now);
    end if;
end
$$;
