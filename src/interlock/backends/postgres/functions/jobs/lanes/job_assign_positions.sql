-- Signal the lanes of jobs that can run. Jobs without a position get one, in the order given. Returns the lanes.
-- planner: lookups
create or replace function interlock.job_assign_positions(p_namespace text, p_ids bigint[]) returns text[]
language plpgsql volatile
as $$
declare
    positions bigint[] := array(select nextval('interlock.job_position') from generate_series(1, cardinality(p_ids)));
    signalled text[];
begin
    with placed as (
        update interlock.job j set position = coalesce(j.position, u.position), apart = false
        from unnest(p_ids, positions) as u (id, position)
        where j.id = u.id returning j.lane, j.position
    ),
    signals as (
        insert into interlock.job_signal as s (namespace, position, lane)
        select p_namespace, min(p.position), p.lane from placed p group by p.lane
        returning s.lane
    )
    select array_agg(s.lane) into signalled from signals s;
    return signalled;
end
$$;
