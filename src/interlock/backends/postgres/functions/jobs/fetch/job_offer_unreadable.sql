-- Before a fetch, in its transaction: make unreadable jobs ready that this worker's versions may be able to read, and
-- park those that no live worker can read. p_names: names of jobs; p_fingerprints: the fingerprints of their handlers. No
-- other transaction sees them as ready, and job_still_unreadable undoes it for those that the fetch does not take.
-- scan_from: from where the fetch scans.
create or replace function interlock.job_offer_unreadable(
    p_namespace text, p_pools text[], p_names text[], p_fingerprints text[], p_max integer, p_scan_from bigint[],
    p_clock double precision, out ids bigint[], out scan_from bigint[]
)
language plpgsql volatile
as $$
declare
    max_count constant integer := 100;
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    others bigint[] := '{}';
    lanes text[];
    by_now text;
    one record;
begin
    ids := '{}';
    scan_from := p_scan_from;
    if not exists (select from interlock.job j where j.unreadable and j.pool = any (p_pools) limit 1) then
        return;
    end if;
    -- By the sets of versions that could not read them, of which there are few.
    for one in
        select x.pool, u.name, u.print from unnest(p_pools) as x (pool)
        cross join unnest(p_names, p_fingerprints) as u (name, print)
    loop
        by_now := '';
        loop
            by_now := (select min(j.unreadable_by) from interlock.job j
                       where j.unreadable and j.pool = one.pool and j.name = one.name and j.unreadable_by > by_now);
            exit when by_now is null;
            if position('"' || one.print || '"' in by_now) = 0 then
                ids := ids || array(
                    select j.id from interlock.job j
                    where j.unreadable and j.pool = one.pool and j.name = one.name and j.unreadable_by = by_now
                    order by j.id limit greatest(0, least(max_count, p_max) - cardinality(ids)));
            else
                others := others || array(
                    select j.id from interlock.job j
                    where j.unreadable and j.pool = one.pool and j.name = one.name and j.unreadable_by = by_now
                      and j.parked is null
                    order by j.id limit greatest(0, max_count - cardinality(others)));
            end if;
        end loop;
    end loop;
    if others <> '{}' then
        perform interlock.job_park_unreadable(p_namespace, others, now_us);
    end if;
    if ids = '{}' then
        return;
    end if;
    lanes := array(select distinct j.lane from interlock.job j where j.id = any (ids) and j.lane is not null order by j.lane);
    perform from interlock.job_lane l where l.lane = any (lanes) order by l.lane for update;
    with found as (
        select j.id from interlock.job j where j.id = any (ids) and j.unreadable order by j.id for update skip locked
    ),
    changed as (
        update interlock.job j set unreadable = false, parked = null, apart = false from found f
        where j.id = f.id returning j.id, j.lane
    )
    select coalesce(array_agg(c.id), '{}'), array_agg(distinct c.lane) filter (where c.lane is not null)
    into ids, lanes from changed c;
    perform interlock.job_make_ready(
        p_namespace, array(select j.id from interlock.job j where j.id = any (ids) and j.lane is null));
    if lanes is not null then
        perform interlock.job_advance(p_namespace, lanes, true);
    end if;
    scan_from := array_fill(-9223372036854775808, array[cardinality(p_pools)]);
end
$$;
