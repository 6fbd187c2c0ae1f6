-- Lock ready jobs that are given only to a worker that can start them now, and merge them with the ready ones, p_max in
-- all. Suspects are picked if the session may take them, and only those of one half: the half that the session runs, or
-- else that of the first suspect. half: which one. more: whether some were left for lack of room.
-- planner: index_reads
create or replace function interlock.job_fetch_pick_immediate(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_max integer,
    inout ready interlock.ready_jobs, out half bigint, out more boolean
)
language plpgsql volatile
as $$
declare
    at_once constant integer := least(p_max, request.at_once - state.units);
    picked record;
begin
    if state.suspects is null and exists (
        select from interlock.job_ready r where r.pool = p_pool and r.class = interlock.class_suspect())
    then
        state := interlock.job_fetch_lock_suspects(request, state);
    end if;
    half := state.half;
    if state.suspects and half is null then
        half := (
            select x.half from (
                select r.half from interlock.job_ready r
                where r.pool = p_pool and r.class = interlock.class_suspect() and r.name = any (request.names)
                order by r.sort, r.id limit 1 for update skip locked) x);
    end if;
    select array_agg(p.tid order by p.sort, p.id) as tids, array_agg(p.id order by p.sort, p.id) as ids,
           array_agg(p.sort order by p.sort, p.id) as sorts, array_agg(p.class order by p.sort, p.id) as classes,
           array_agg(p.limited order by p.sort, p.id) as limited, array_agg(p.lane order by p.sort, p.id) as lanes,
           array_agg(p.key order by p.sort, p.id) as keys, array_agg(p.max order by p.sort, p.id) as maxima
    into picked
    from (
        select u.tid, u.id, u.sort, interlock.class_usual() as class, u.limited, u.lane, u.key, u.max
        from unnest(ready.tids, ready.ids, ready.sorts, ready.limited, ready.lanes, ready.keys, ready.maxima)
             as u (tid, id, sort, limited, lane, key, max)
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.class, r.limited, r.lane, r.use_key, r.use_max_count from interlock.job_ready r
            where r.pool = p_pool and r.class = interlock.class_immediate() and r.name = any (request.names)
            order by r.sort, r.id limit at_once for update skip locked) immediate
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.class, r.limited, r.lane, r.use_key, r.use_max_count from interlock.job_ready r
            where state.suspects and r.pool = p_pool and r.class = interlock.class_suspect() and r.half = job_fetch_pick_immediate.half
              and r.name = any (request.names)
            order by r.sort, r.id limit at_once for update skip locked) suspect
    ) p;
    more := coalesce(cardinality(picked.ids) > p_max, false);
    ready := (
        picked.tids[: p_max], picked.ids[: p_max], picked.sorts[: p_max], picked.classes[: p_max], picked.limited[: p_max],
        picked.lanes[: p_max], picked.keys[: p_max], picked.maxima[: p_max]);
end
$$;
