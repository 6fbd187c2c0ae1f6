-- Judge jobs with limits one after the other, in the order given, which is that in which they would start; p_class 1
-- and 2 only among the first p_at_once. verdicts: 0 stay, 1 take, 2 wait, 3 careful: to be given only to who can
-- start now. All of their keys are locked. Those whose only limit is one on slots are judged together: a place in
-- line before the others, then as many newcomers as there is room for beyond the line. Only jobs with one of p_names,
-- which the fetcher takes, hold up others. behind: some wait though there is room, which is for those before them.
-- planner: index_reads
create or replace function interlock.job_check_limits(
    p_namespace text, p_pool text, p_names text[], p_ids bigint[], p_classes smallint[], p_limited boolean[], p_keys text[],
    p_mosts integer[], p_able boolean[], p_at_once integer, p_units integer, p_quota integer, p_now bigint, p_within bigint,
    inout p_counts jsonb, out verdicts smallint[], out behind boolean
)
language plpgsql volatile
as $$
declare
    units integer := p_units;
    one_by_one boolean;
    verdict smallint;
    k record;
    names text[] := '{}';
    mosts integer[] := '{}';
    rooms integer[] := '{}';
    newcomers integer[] := '{}';
    allowed integer[] := '{}';
    taken integer[] := '{}';
    in_line bigint[] := '{}';
    front bigint[] := '{}';
    room integer;
    line bigint[];
    at integer;
    waits boolean;
    is_behind boolean;
begin
    behind := false;
    verdicts := array_fill(0::smallint, array[cardinality(p_ids)]);
    select bool_or(u.limited and u.key is null) or count(distinct u.key) <> count(distinct (u.key, u.most))
    into one_by_one from unnest(p_limited, p_keys, p_mosts) as u (limited, key, most) where u.limited;
    if not coalesce(one_by_one, false) then
        for k in
            select distinct u.key, u.most from unnest(p_keys, p_mosts, p_able) as u (key, most, able)
            where u.key is not null and u.able
        loop
            select r.room into room from interlock.job_limit_room(p_namespace, k.key, k.most, 0, p_now) r;
            line := array(select f.id from interlock.job_first_waiting(p_namespace, k.key, p_pool, p_names, room) f);
            front := front || line;
            at := coalesce((p_counts ->> k.key)::integer, 0);
            names := names || k.key;
            mosts := mosts || k.most;
            rooms := rooms || room;
            newcomers := newcomers || (room - cardinality(line));
            allowed := allowed || (greatest(p_at_once, (room + at) / 2) - at);
            taken := taken || 0;
        end loop;
        in_line := array(select w.id from interlock.job_limit_wait w where w.id = any (p_ids));
    end if;

    for i in 1 .. cardinality(p_ids) loop
        verdict := 1;
        if not p_able[i] or units - p_units >= p_quota
           or p_classes[i] > 0 and units >= p_at_once then
            verdict := 0;
        elsif p_limited[i] and one_by_one then
            select a.verdict, a.behind, a.p_counts into verdict, is_behind, p_counts
            from interlock.job_admit(p_namespace, p_ids[i], p_names, p_at_once, p_now, p_within, p_counts) a;
            behind := behind or is_behind;
        elsif p_limited[i] then
            at := array_position(names, p_keys[i]);
            waits := p_ids[i] = any (in_line);
            if rooms[at] <= 0 or waits and p_ids[i] <> all (front) or not waits and newcomers[at] <= 0 then
                verdict := 2;
                behind := behind or rooms[at] > 0;
            elsif taken[at] >= allowed[at] then
                verdict := case when allowed[at] <= 0 and p_classes[i] = 0 then 3 else 0 end;
            else
                rooms[at] := rooms[at] - 1;
                taken[at] := taken[at] + 1;
                if not waits then
                    newcomers[at] := newcomers[at] - 1;
                end if;
            end if;
        end if;
        verdicts[i] := verdict;
        if verdict = 1 then
            units := units + 1;
        end if;
    end loop;

    for i in 1 .. cardinality(names) loop
        continue when taken[i] = 0;
        perform interlock.job_count(p_namespace, names[i], mosts[i], 0, taken[i]);
        p_counts := p_counts || jsonb_build_object(names[i], coalesce((p_counts ->> names[i])::integer, 0) + taken[i]);
    end loop;
    if not coalesce(one_by_one, false) and cardinality(names) > 0 then
        delete from interlock.job_limit_wait w
        where w.id = any (array(
            select u.id from unnest(p_ids, verdicts) as u (id, verdict)
            where u.verdict = 1 and u.id = any (in_line)));
        -- In two steps, so that tickets are drawn in order.
        insert into interlock.job_limit_wait as w (id, ticket, per, most, namespace, key, pool, name)
        select x.id, coalesce(x.ticket, nextval('interlock.job_ticket')), 0, x.most, p_namespace, x.key, p_pool, x.name
        from (
            select u.id, u.key, u.most, j.ticket, j.name
            from unnest(p_ids, p_keys, p_mosts, verdicts) with ordinality as u (id, key, most, verdict, n)
            join interlock.job j on j.id = u.id
            where u.verdict = 2 order by u.n
        ) x
        on conflict (id) do update set woken = false;
        update interlock.job j set apart = true
        where j.id = any (array(
            select u.id from unnest(p_ids, verdicts) as u (id, verdict) where u.verdict = 2))
          and j.lane is not null;
    end if;
end
$$;
