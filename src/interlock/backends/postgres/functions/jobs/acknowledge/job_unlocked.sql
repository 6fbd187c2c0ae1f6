-- Lock fetched jobs, and return those that no other transaction has locked, nor their lanes, nor another of these jobs
-- in the same lane. The caller has locked their fetches. p_wait: wait up to two seconds for the others first.
create or replace function interlock.job_unlocked(p_ids bigint[], p_wait boolean) returns bigint[]
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    lanes text[] := array(
        select l.lane from interlock.job_lane l
        where l.lane in (select j.lane from interlock.job j where j.id = any (p_ids)));
    free_lanes text[];
    free bigint[];
begin
    if p_wait then
        begin
            perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
            perform from interlock.job j where j.id = any (p_ids) order by j.id for update;
            return p_ids;
        exception when lock_not_available then
            null;
        end;
    end if;
    free_lanes := array(
        select l.lane from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update skip locked);
    lanes := array(select unnest(lanes) except select unnest(free_lanes));
    free := array(
        select j.id from interlock.job j
        where j.id = any (p_ids) and (j.lane is null or j.lane <> all (lanes)) order by j.id for update skip locked);
    lanes := lanes || array(
        select distinct j.lane from interlock.job j
        where j.id = any (p_ids) and j.lane is not null and j.id <> all (free));
    return array(
        select j.id from interlock.job j where j.id = any (free) and (j.lane is null or j.lane <> all (lanes)));
end
$$;
