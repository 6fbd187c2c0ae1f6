-- Accept events, each with its jobs or, if its delivery is kept already, not at all. Says under which ids they are kept, in
-- the order given. p_counts[i] says how many of the jobs are those of event i; jobs stand in the order of their events, and
-- are otherwise as for job_enqueue. Rows are added in the order of their keys, so that no two calls wait for one another.
-- planner: lookups
create or replace function interlock.event_accept(
    p_namespace text, p_event_ids bigint[], p_sources text[], p_deliveries text[], p_types text[], p_actors text[],
    p_payloads text[], p_event_keeps double precision[], p_replays bigint[], p_attributions text[], p_counts integer[],
    p_ids bigint[], p_kinds integer[], p_lanes text[], p_delays double precision[],
    p_ats double precision[], p_arguments text[], p_names text[], p_queues text[], p_priorities integer[],
    p_failings integer[], p_coalesce boolean[], p_keeps double precision[], p_options text[], p_use_keys text[],
    p_use_mosts integer[], p_use_pers bigint[], p_uses text[], p_paced boolean[], p_clock double precision
) returns bigint[]
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    fresh bigint[] := '{}';
    added bigint[];
    kept bigint[];
    known bigint[];
begin
    perform interlock.durably();
    loop
        -- Waits for others who are adding the same delivery to commit or to give up.
        with new as (
            insert into interlock.event as e (
                id, received_at, kept_until, replay_of, namespace, source, delivery, type, actor, replayed_by, jobs, payload)
            select u.id, now_us, now_us + (u.keep * 1e6)::bigint, u.replay_of, p_namespace, u.source, u.delivery, u.type,
                   u.actor, coalesce(u.attribution::jsonb ->> 0, ''), coalesce(p_ids[u.upto - u.count + 1 : u.upto], '{}'), u.payload
            from (
                select x.*, (sum(x.count) over (order by x.n))::integer as upto
                from unnest(p_event_ids, p_sources, p_deliveries, p_types, p_actors, p_payloads, p_event_keeps, p_replays,
                            p_attributions, p_counts)
                     with ordinality as x (id, source, delivery, type, actor, payload, keep, replay_of, attribution, count, n)
            ) u
            order by u.delivery collate "C", u.source collate "C", u.n
            on conflict do nothing
            returning e.id
        )
        select array_agg(new.id) into added from new;
        fresh := fresh || added;
        exit when cardinality(fresh) = cardinality(p_event_ids);
        select array_agg(e.id order by u.n) into kept
        from unnest(p_sources, p_deliveries) with ordinality as u (source, delivery, n)
        left join lateral (
            select e.id from interlock.event e
            where e.namespace = p_namespace and e.delivery = u.delivery and e.source = u.source limit 1
        ) e on true;
        exit when array_position(kept, null) is null;
        -- One was removed between the two looks, and is new now; unless its id stands for something else.
        if exists (
            select from unnest(p_event_ids, p_sources, p_deliveries) as u (id, source, delivery)
            cross join lateral (select e.* from interlock.event e where e.id = u.id limit 1) e
            where (e.namespace, e.source, e.delivery) is distinct from (p_namespace, u.source, u.delivery)) then
            raise unique_violation using message = 'the id of an event was used before';
        end if;
    end loop;
    if cardinality(fresh) = cardinality(p_event_ids) then
        kept := p_event_ids;
        known := '{}';
    else
        known := array(
            select unnest(p_ids[u.upto - u.count + 1 : u.upto])
            from (
                select x.id, x.count, (sum(x.count) over (order by x.n))::integer as upto
                from unnest(p_event_ids, p_counts) with ordinality as x (id, count, n)
            ) u
            where u.id <> all (fresh));
    end if;
    if cardinality(known) < coalesce(cardinality(p_ids), 0) then
        perform interlock.job_enqueue(
            p_namespace, p_ids, p_kinds, p_lanes, p_delays, p_ats, p_arguments, p_names, p_queues, p_priorities,
            p_failings, p_coalesce, p_keeps, p_options, p_use_keys, p_use_mosts, p_use_pers, p_uses, p_paced, known,
            p_clock);
    end if;
    perform interlock.journal_add(
        p_namespace, now_us, u.attribution::jsonb, 'event.replay', u.replay_of::text, null,
        json_build_object('event', u.id, 'jobs', (select to_json(e.jobs) from interlock.event e where e.id = u.id)))
    from unnest(p_event_ids, p_replays, p_attributions) as u (id, replay_of, attribution)
    where u.attribution is not null and u.id = any (fresh);
    return kept;
end
$$;
