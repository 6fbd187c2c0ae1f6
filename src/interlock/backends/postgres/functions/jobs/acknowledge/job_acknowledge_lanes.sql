-- Lock the lanes of acknowledged jobs and return those whose run has ended, which are not fetched any longer. A job that
-- is done changes nothing else in its lane: if all are, only the lanes whose run has ended are locked.
-- planner: caller
create or replace function interlock.job_acknowledge_lanes(
    acknowledged interlock.acknowledgements, p_last_ones bigint[], out idle text[]
)
language plpgsql volatile
as $$
declare
    lanes text[];
begin
    idle := array(
        select j.lane from unnest(p_last_ones) as u (id)
        cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j order by j.lane);
    lanes := idle;
    if acknowledged.outcomes is not null then
        lanes := array(
            select distinct j.lane from unnest(acknowledged.ids) as u (id)
            cross join lateral (select j.lane from interlock.job j where j.id = u.id limit 1) j
            where j.lane is not null order by j.lane);
    end if;
    perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
    update interlock.job_lane l set fetched = false where l.lane = any (idle);
end
$$;
