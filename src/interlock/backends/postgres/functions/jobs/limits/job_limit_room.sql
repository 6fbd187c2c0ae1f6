-- How many more jobs with these figures may be fetched under a key, by its slots and its rates, and when the next one
-- may if a rate has no room. The caller has locked the key. Fetched jobs and reservations count with their own figures, unless
-- a person has set one. If reservations use the key: the tickets of those for which room is kept, and when slots may become
-- free without a message; the tickets and times of planned starts, and the figures that those have to keep.
create or replace function interlock.job_limit_room(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_now bigint, out room integer, out fit_at bigint,
    out rivals bigint[], out opens_at bigint, out plan_tickets bigint[], out plan_ats bigint[], out pace_mosts integer[],
    out pace_pers bigint[]
)
language plpgsql volatile
as $$
declare
    k interlock.job_limit;
    started integer := 0;
    reserved_mosts integer[];
    reserved_pers bigint[];
    figure record;
    starts bigint;
    at_last bigint;
begin
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    room := 1000000000;
    if k.shared then
        select r.started, r.mosts, r.pers, r.rivals, r.opens_at, r.plan_tickets, r.plan_ats
        into started, reserved_mosts, reserved_pers, rivals, opens_at, plan_tickets, plan_ats
        from interlock.job_limit_reserved(p_namespace, p_key, p_now) r;
    end if;
    for figure in
        select coalesce(k.override_count, p_most) as max_count, coalesce(k.override_per, p_per) as per
        union
        select k.max_count, k.per where k.taken > 0 and k.figures is null and k.override_count is null
        union
        select split_part(f, '/', 1)::integer, split_part(f, '/', 2)::bigint from jsonb_object_keys(k.figures) f
        where k.override_count is null
        union
        select u.max_count, u.per from unnest(reserved_mosts, reserved_pers) as u (max_count, per)
        where k.override_count is null
    loop
        if figure.per = 0 then
            room := least(room, figure.max_count - k.taken - started);
            continue;
        end if;
        select count(*) into starts from (
            select from interlock.job_limit_start s
            where s.namespace = p_namespace and s.key = p_key and s.at > p_now - figure.per limit figure.max_count) s;
        if k.shared then
            pace_mosts := pace_mosts || figure.max_count;
            pace_pers := pace_pers || figure.per;
            starts := starts + (
                select count(*) from interlock.limit_start s
                where s.namespace = p_namespace and s.key = p_key and s.at > p_now - figure.per);
        end if;
        room := least(room, figure.max_count - starts);
        if starts >= figure.max_count then
            select s.at into at_last from (
                select s.at from interlock.job_limit_start s where s.namespace = p_namespace and s.key = p_key
                union all
                select s.at from interlock.limit_start s where k.shared and s.namespace = p_namespace and s.key = p_key
            ) s order by s.at desc offset figure.max_count - 1 limit 1;
            fit_at := greatest(fit_at, at_last + figure.per);
        end if;
    end loop;
end
$$;
