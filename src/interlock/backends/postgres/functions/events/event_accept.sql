-- Accept events with their jobs, except those whose delivery is already stored. Returns the IDs under which the events are
-- stored, in the order given. The jobs are in the order of their events. Rows are added in the order of their keys, so that
-- two calls never deadlock. The payloads are no field of p_events: building and unpacking a composite copies each field.
-- planner: lookups
create or replace function interlock.event_accept(
    p_namespace text, p_events interlock.new_events, p_payloads text[], p_jobs interlock.new_jobs, p_clock double precision
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
        -- Waits until another transaction that adds the same delivery commits or rolls back.
        with new as (
            insert into interlock.event as e (
                id, received_at, kept_until, replay_of, namespace, source, delivery, type, actor, replayed_by, jobs, payload)
            select u.id, now_us, now_us + (u.keep * 1e6)::bigint, u.replay_of, p_namespace, u.source, u.delivery, u.type,
                   u.actor, coalesce(u.attribution::jsonb ->> 0, ''),
                   coalesce(p_jobs.ids[u.upto - u.count + 1 : u.upto], '{}'), u.payload
            from (
                select x.*, (sum(x.count) over (order by x.n))::integer as upto
                from unnest(p_events.ids, p_events.sources, p_events.deliveries, p_events.types, p_events.actors,
                            p_payloads, p_events.keeps, p_events.replays,
                            p_events.attributions, p_events.job_counts)
                     with ordinality as x (id, source, delivery, type, actor, payload, keep, replay_of, attribution, count, n)
            ) u
            order by u.delivery collate "C", u.source collate "C", u.n
            on conflict do nothing
            returning e.id
        )
        select array_agg(new.id) into added from new;
        fresh := fresh || added;
        exit when cardinality(fresh) = cardinality(p_events.ids);
        select array_agg(e.id order by u.n) into kept
        from unnest(p_events.sources, p_events.deliveries) with ordinality as u (source, delivery, n)
        left join lateral (
            select e.id from interlock.event e
            where e.namespace = p_namespace and e.delivery = u.delivery and e.source = u.source limit 1
        ) e on true;
        exit when array_position(kept, null) is null;
        -- One was removed between the two statements and is new now, unless its ID belongs to another event.
        if exists (
            select from unnest(p_events.ids, p_events.sources, p_events.deliveries) as u (id, source, delivery)
            cross join lateral (select e.* from interlock.event e where e.id = u.id limit 1) e
            where (e.namespace, e.source, e.delivery) is distinct from (p_namespace, u.source, u.delivery)) then
            raise unique_violation using message = 'the ID of an event was used before';
        end if;
    end loop;
    if cardinality(fresh) = cardinality(p_events.ids) then
        kept := p_events.ids;
        known := '{}';
    else
        known := array(
            select unnest(p_jobs.ids[u.upto - u.count + 1 : u.upto])
            from (
                select x.id, x.count, (sum(x.count) over (order by x.n))::integer as upto
                from unnest(p_events.ids, p_events.job_counts) with ordinality as x (id, count, n)
            ) u
            where u.id <> all (fresh));
    end if;
    if cardinality(known) < coalesce(cardinality(p_jobs.ids), 0) then
        perform interlock.job_enqueue(p_namespace, p_jobs, known, p_clock, false);
    end if;
    if p_events.attributions is not null then
        perform interlock.journal_add(
            p_namespace, now_us, u.attribution::jsonb, 'event.replay', u.replay_of::text, null,
            json_build_object('event', u.id, 'jobs', (select to_json(e.jobs) from interlock.event e where e.id = u.id)))
        from unnest(p_events.ids, p_events.replays, p_events.attributions) as u (id, replay_of, attribution)
        where u.attribution is not null and u.id = any (fresh);
    end if;
    return kept;
end
$$;
