-- Coalesce the first jobs of lanes with those behind them. p_units: the ready rows whose job coalesces. Each such row is
-- replaced by one of the newest job. If there are more jobs to coalesce than one fetch looks at, the row is not taken.
-- planner: caller
create or replace function interlock.job_fetch_coalesce(
    request interlock.fetch_request, inout state interlock.fetch_state, p_pool text, p_units integer[],
    inout ready interlock.ready_jobs, inout runs interlock.lane_runs
)
language plpgsql volatile
as $$
declare
    c record;
    newest record;
begin
    for c in
        select u.unit, q.newest, q.more from unnest(p_units) as u (unit)
        cross join lateral interlock.job_coalesce(request.namespace, ready.lanes[u.unit], state.now, 1000) q
    loop
        state.incomplete := state.incomplete or c.more;
        runs.able[c.unit] := not c.more;
        continue when c.newest = ready.ids[c.unit];
        delete from interlock.job_ready r where r.ctid = ready.tids[c.unit];
        insert into interlock.job_ready as r (pool, sort, id, half, use_max_count, class, limited, name, lane, use_key)
        select j.pool, interlock.job_sort(j.due_at, j.priority), j.id, j.half,
               case when j.use_per = 0 then j.use_max_count end, interlock.job_class(j.half, j.paced),
               j.use_key is not null or j.uses is not null, j.name, j.lane, case when j.use_per = 0 then j.use_key end
        from interlock.job j where j.id = c.newest
        returning r.ctid as tid, r.* into newest;
        ready.tids[c.unit] := newest.tid;
        ready.ids[c.unit] := newest.id;
        ready.classes[c.unit] := newest.class;
        ready.limited[c.unit] := newest.limited;
        ready.keys[c.unit] := newest.use_key;
        ready.maxima[c.unit] := newest.use_max_count;
        runs.ids[array_position(runs.units, c.unit)] := newest.id;
        if newest.pool <> p_pool then
            -- It is for workers of that queue, which may be this one at its next fetch.
            runs.able[c.unit] := false;
            state.incomplete := true;
            perform interlock.job_notify(newest.pool, newest.sort);
        end if;
    end loop;
end
$$;
