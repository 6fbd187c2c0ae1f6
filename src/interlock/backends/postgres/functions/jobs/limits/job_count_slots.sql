-- Count the slots under each key of ready jobs, as slot_counts has them.
-- planner: index_reads
create or replace function interlock.job_count_slots(
    request interlock.fetch_request, state interlock.fetch_state, p_pool text, ready interlock.ready_jobs,
    p_able boolean[]
) returns interlock.slot_counts
language plpgsql volatile
as $$
declare
    slots interlock.slot_counts;
    k record;
    r record;
    room integer;
    first bigint[];
    newcomers integer;
    taken integer;
begin
    for k in
        select distinct u.key, u.max from unnest(ready.keys, ready.maxima, p_able) as u (key, max, able)
        where u.key is not null and u.able
    loop
        r := interlock.job_limit_room(request.namespace, k.key, k.max, 0, state.now);
        room := r.room;
        first := array(
            select f.id from interlock.job_first_waiting(request.namespace, k.key, p_pool, request.names, room) f);
        newcomers := room - cardinality(first);
        if r.rivals <> '{}' then
            -- Each waiting reservation keeps a slot from the jobs that queued after it.
            newcomers := newcomers - cardinality(r.rivals);
            first := array(
                select x.id from (
                    select f.id, f.ticket, row_number() over (order by f.ticket) as n
                    from interlock.job_first_waiting(request.namespace, k.key, p_pool, request.names, room) f
                ) x
                where x.n + (select count(*) from unnest(r.rivals) as t (ticket) where t.ticket < x.ticket) <= room);
            room := cardinality(first) + greatest(newcomers, 0);
        end if;
        taken := coalesce((state.counts ->> k.key)::integer, 0);
        slots.first := slots.first || first;
        slots.keys := slots.keys || k.key;
        slots.maxima := slots.maxima || k.max;
        slots.rooms := slots.rooms || room;
        slots.newcomers := slots.newcomers || newcomers;
        slots.allowed := slots.allowed || (greatest(request.at_once, (room + taken) / 2) - taken);
        slots.taken := slots.taken || 0;
    end loop;
    return slots;
end
$$;
