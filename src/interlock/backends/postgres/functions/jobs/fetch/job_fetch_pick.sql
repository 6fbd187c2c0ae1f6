-- Lock ready jobs of a pool: usual ones, and in the first round (p_first) those that are given only to a worker that can
-- start them now. simple: none of them has a lane, a limit or another class than the usual. half: the half of suspects that
-- is among them. more: whether there may be more. from_sort, from_id: where the next round continues.
-- planner: caller
create or replace function interlock.job_fetch_pick(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_quota integer, p_first boolean,
    inout scan_from bigint, inout from_sort bigint, inout from_id bigint,
    out ready interlock.ready_jobs, out simple boolean, out half bigint, out more boolean
)
language plpgsql volatile
as $$
declare
    max_lanes constant integer := 250;
    want integer := p_quota;
    picked record;
begin
    if request.lanes is not null then
        picked := interlock.job_fetch_pick_lanes(request, state, p_pool);
        state := picked.state;
        ready := picked.ready;
        half := picked.half;
        simple := false;
        more := false;
        return;
    end if;
    -- Lanes that have several jobs are taken as runs, which costs less for each job; fewer lanes are enough.
    if request.run_length > 1 and p_quota > max_lanes and (
        select r.lane is not null from interlock.job_ready r
        where r.pool = p_pool and r.class = interlock.class_usual() and r.sort >= from_sort
        order by r.sort, r.id limit 1)
    then
        want := greatest(max_lanes, request.at_once);
    end if;
    picked := interlock.job_fetch_pick_usual(p_pool, request.names, want, scan_from, from_sort, from_id);
    ready := picked.ready;
    simple := picked.simple;
    scan_from := picked.scan_from;
    more := coalesce(cardinality(ready.ids), 0) >= want;
    if p_first and request.at_once > state.units and exists (
        select from interlock.job_ready r where r.pool = p_pool and r.class > interlock.class_usual())
    then
        picked := interlock.job_fetch_pick_immediate(request, state, p_pool, want, ready);
        state := picked.state;
        ready := picked.ready;
        half := picked.half;
        more := more or picked.more;
        simple := false;
    elsif not simple then
        ready.classes := array_fill(interlock.class_usual(), array[cardinality(ready.ids)]);
    end if;
    for i in reverse coalesce(cardinality(ready.ids), 0) .. 1 loop
        if simple or ready.classes[i] = interlock.class_usual() then
            from_sort := ready.sorts[i];
            from_id := ready.ids[i];
            exit;
        end if;
    end loop;
end
$$;
