-- Take ready jobs in up to five rounds. In each round every pool that has more gets an equal share of what is missing.
-- ids, runs: the jobs in the order in which to start them, and the run of its lane that each belongs to. scan_from: from
-- which sort key the next fetch scans each pool; the lowest where this one left something.
-- planner: caller
create or replace function interlock.job_fetch_scan(
    request interlock.fetch_request, inout state interlock.fetch_state, inout scan_from bigint[], out ids bigint[],
    out runs integer[]
)
language plpgsql volatile
as $$
declare
    lowest constant bigint := -9223372036854775808;
    pools constant integer := cardinality(request.pools);
    from_sorts bigint[] := scan_from;
    from_ids bigint[] := array_fill(-1::bigint, array[pools]);
    over boolean[] := array_fill(false, array[pools]);
    left_some boolean[] := array_fill(false, array[pools]);
    sharing integer;
    quota integer;
    picked record;
    ready interlock.ready_jobs;
    step record;
    got interlock.taken_jobs;
    taken interlock.taken_jobs := ('{}'::bigint[], '{}'::bigint[], '{}'::boolean[], '{}'::integer[]);
begin
    for round in 1 .. 5 loop
        sharing := (select count(*) from unnest(over) as o (is_over) where not o.is_over);
        exit when sharing = 0 or cardinality(taken.ids) >= request.max_jobs;
        for i in 1 .. pools loop
            continue when over[i];
            quota := (request.max_jobs - cardinality(taken.ids) + sharing - 1) / sharing;
            sharing := sharing - 1;
            continue when quota <= 0;
            picked := interlock.job_fetch_pick(
                request, state, request.pools[i], quota, round = 1, scan_from[i], from_sorts[i], from_ids[i]);
            state := picked.state;
            scan_from[i] := picked.scan_from;
            over[i] := not picked.more;
            ready := picked.ready;
            continue when ready.ids is null;
            from_sorts[i] := picked.from_sort;
            from_ids[i] := picked.from_id;
            step := interlock.job_fetch_take(
                request, state, request.pools[i], ready, picked.simple, picked.half, quota);
            state := step.state;
            got := step.taken;
            taken.ids := taken.ids || got.ids;
            taken.sorts := taken.sorts || got.sorts;
            taken.immediate := taken.immediate || got.immediate;
            taken.runs := taken.runs || got.runs;
            left_some[i] := left_some[i] or step.left_some;
        end loop;
    end loop;
    ids := taken.ids;
    runs := taken.runs;
    if state.batches > 1 then
        -- Jobs that are given only to a worker that can start them now stay among the first.
        select array_agg(u.id order by u.immediate desc, u.sort, u.n),
               array_agg(u.run order by u.immediate desc, u.sort, u.n)
        into ids, runs
        from unnest(taken.ids, taken.sorts, taken.immediate, taken.runs) with ordinality as u (id, sort, immediate, run, n);
    end if;
    for i in 1 .. pools loop
        scan_from[i] := case when over[i] or left_some[i] then lowest else from_sorts[i] end;
    end loop;
end
$$;
