-- Return all that a session has claimed, but these, as never started; with p_turn only what it claimed up to that one, and
-- no claim up to it takes place any more. Says how many, and how many were left because other transactions have locked them
-- or their lanes.
create or replace function interlock.job_hand_back(
    p_namespace text, p_session text, p_but bigint[], p_turn bigint, p_most_crashes integer, p_given double precision,
    out returned integer, out blocked integer
)
language plpgsql volatile
as $$
declare
    ids bigint[];
    fences bigint[];
    unlocked bigint[];
begin
    returned := 0;
    blocked := 0;
    if p_turn is not null then
        insert into interlock.job_crew as c (namespace, session, host, pid, program, seen_at, barred)
        select s.namespace, s.id, s.host, s.pid, s.program, interlock.micros(interlock.now_or(p_given)), p_turn
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set barred = greatest(c.barred, excluded.barred);
    end if;
    perform from interlock.job_claimed c
    where c.session = p_session and c.namespace = p_namespace order by c.fence for update;
    select array_agg(o.id), array_agg(c.fence) into ids, fences
    from interlock.job_claimed c
    cross join lateral unnest(c.ids) as o (id)
    where c.session = p_session and c.namespace = p_namespace and (p_turn is null or c.turn <= p_turn)
      and not exists (select from unnest(p_but) as b (id) where b.id = o.id);
    if ids is null then
        return;
    end if;
    unlocked := interlock.job_unlocked(ids, true);
    if cardinality(unlocked) < cardinality(ids) then
        blocked := cardinality(ids) - cardinality(unlocked);
        select array_agg(u.id), array_agg(u.fence) into ids, fences
        from unnest(ids, fences) as u (id, fence) where u.id = any (unlocked);
        if ids is null then
            return;
        end if;
    end if;
    returned := cardinality(ids);
    perform interlock.job_settle(
        p_namespace, p_session, ids, fences, array_fill(8::smallint, array[cardinality(ids)]), null, null, null, null, null,
        p_most_crashes, p_given);
end
$$;
