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
    room integer;
    first bigint[];
    taken integer;
begin
    for k in
        select distinct u.key, u.max from unnest(ready.keys, ready.maxima, p_able) as u (key, max, able)
        where u.key is not null and u.able
    loop
        select r.room into room from interlock.job_limit_room(request.namespace, k.key, k.max, 0, state.now) r;
        first := array(
            select f.id from interlock.job_first_waiting(request.namespace, k.key, p_pool, request.names, room) f);
        taken := coalesce((state.counts ->> k.key)::integer, 0);
        slots.first := slots.first || first;
        slots.keys := slots.keys || k.key;
        slots.maxima := slots.maxima || k.max;
        slots.rooms := slots.rooms || room;
        slots.newcomers := slots.newcomers || (room - cardinality(first));
        slots.allowed := slots.allowed || (greatest(request.at_once, (room + taken) / 2) - taken);
        slots.taken := slots.taken || 0;
    end loop;
    return slots;
end
$$;
