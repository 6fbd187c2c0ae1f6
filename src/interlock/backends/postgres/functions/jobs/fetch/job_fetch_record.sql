-- Record that a session has fetched jobs, in parts of about a hundred that each have a fence. A run of a lane stays in one
-- part. Returns the fence of each job.
create or replace function interlock.job_fetch_record(
    request interlock.fetch_request, state interlock.fetch_state, p_session_id bigint, p_fetch_number bigint,
    p_ids bigint[], p_runs integer[]
) returns bigint[]
language plpgsql volatile
as $$
declare
    part constant integer := 100;
    first integer := 1;
    last integer;
    fence bigint;
    fences bigint[] := '{}';
begin
    while first <= cardinality(p_ids) loop
        last := least(first + part - 1, cardinality(p_ids));
        while state.laned and p_runs[last] = p_runs[last + 1] loop
            last := last + 1;
        end loop;
        fence := nextval('interlock.fence');
        insert into interlock.job_fetched (
            fence, fetched_at, session_id, fetch_number, limited, namespace, session, ids, runs)
        values (fence, state.now, p_session_id, p_fetch_number, state.limited, request.namespace, request.session,
                p_ids[first : last], case when state.laned then p_runs[first : last] end);
        fences := fences || array_fill(fence, array[last - first + 1]);
        first := last + 1;
    end loop;
    return fences;
end
$$;
