-- Return the jobs that a session has fetched, except those in p_but, as never started. With p_fetch_number only those
-- fetched up to that number, and later attempts to fetch with such a number are refused. returned: how many; blocked:
-- how many were left because other transactions have locked them or their lanes.
create or replace function interlock.job_return_unstarted(
    p_namespace text, p_session text, p_but bigint[], p_fetch_number bigint, p_max_crashes integer, p_clock double precision,
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
    if p_fetch_number is not null then
        insert into interlock.job_session as c (namespace, session, host, pid, program, seen_at, refused_fetches)
        select s.namespace, s.id, s.host, s.pid, s.program, interlock.micros(interlock.now_or(p_clock)), p_fetch_number
        from interlock.session s where s.namespace = p_namespace and s.id = p_session
        on conflict (namespace, session) do update set refused_fetches = greatest(c.refused_fetches, excluded.refused_fetches);
    end if;
    perform from interlock.job_fetched c
    where c.session = p_session and c.namespace = p_namespace order by c.fence for update;
    select array_agg(o.id), array_agg(c.fence) into ids, fences
    from interlock.job_fetched c
    cross join lateral unnest(c.ids) as o (id)
    where c.session = p_session and c.namespace = p_namespace and (p_fetch_number is null or c.fetch_number <= p_fetch_number)
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
    perform interlock.job_acknowledge(
        p_namespace, p_session,
        (ids, fences, array_fill(interlock.outcome_unstarted(), array[cardinality(ids)]), null, null, null, null, null, null
        )::interlock.acknowledgements, p_max_crashes, p_clock);
end
$$;
