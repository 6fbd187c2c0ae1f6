-- Lock the ready jobs of a pool that are the first ones of the requested lanes, of any class. Suspects are picked
-- if the session may take them: those of the half that it runs, or else of the first one's half. half: which one.
-- planner: index_reads
create or replace function interlock.job_fetch_pick_lanes(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text,
    out ready interlock.ready_jobs, out half bigint
)
language plpgsql volatile
as $$
declare
    picked record;
begin
    if state.suspects is null and exists (
        select from interlock.job_ready r
        where r.lane = any (request.lanes) and r.pool = p_pool and r.class = interlock.class_suspect())
    then
        state := interlock.job_fetch_lock_suspects(request, state);
    end if;
    half := state.half;
    if state.suspects and half is null then
        half := (
            select x.half from (
                select r.half from interlock.job_ready r
                where r.lane = any (request.lanes) and r.pool = p_pool and r.class = interlock.class_suspect()
                  and r.name = any (request.names)
                order by r.sort, r.id limit 1 for update skip locked) x);
    end if;
    select array_agg(p.ctid order by p.sort, p.id) as tids, array_agg(p.id order by p.sort, p.id) as ids,
           array_agg(p.sort order by p.sort, p.id) as sorts, array_agg(p.class order by p.sort, p.id) as classes,
           array_agg(p.limited order by p.sort, p.id) as limited, array_agg(p.lane order by p.sort, p.id) as lanes,
           array_agg(p.use_key order by p.sort, p.id) as keys, array_agg(p.use_max_count order by p.sort, p.id) as maxima
    into picked
    from (
        select r.ctid, r.id, r.sort, r.class, r.limited, r.lane, r.use_key, r.use_max_count from interlock.job_ready r
        where r.lane = any (request.lanes) and r.pool = p_pool and r.name = any (request.names)
          and (r.class <> interlock.class_suspect()
               or state.suspects and r.half = job_fetch_pick_lanes.half)
        order by r.sort, r.id limit request.max_jobs for update skip locked
    ) p;
    ready := (
        picked.tids, picked.ids, picked.sorts, picked.classes, picked.limited, picked.lanes, picked.keys, picked.maxima);
end
$$;
