-- Do one step of a schedule, if it still has the version and the next time that were read: enqueue its jobs, unless the
-- last one is unfinished and overlaps are skipped, and set the next time. p_enqueued, p_overlap: the firings to add in
-- either case, as schedule_add_firings takes them. A schedule that another transaction has locked is left to it.
-- planner: keys
create or replace function interlock.schedule_fire(
    p_namespace text, p_name text, p_version bigint, p_expected bigint, p_next bigint, p_last_at bigint, p_missed bigint,
    p_skip_overlap boolean, p_enqueued jsonb, p_overlap jsonb, p_kept integer, p_jobs interlock.new_jobs,
    p_clock double precision, out won boolean, out enqueued boolean
)
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    ids bigint[] := p_jobs.ids;
    s interlock.schedule;
    is_overlap boolean;
begin
    won := false;
    enqueued := false;
    select x.* into s from interlock.schedule x
    where x.namespace = p_namespace and x.name = p_name and x.version = p_version and x.state = 'active'
      and x.next_at = p_expected
    for update skip locked;
    if s.name is null then
        return;
    end if;
    perform interlock.durably();
    won := true;
    is_overlap := ids is not null and p_skip_overlap
        and exists (select from interlock.job j where j.id = s.last_job);
    enqueued := ids is not null and not is_overlap;
    if enqueued then
        perform interlock.job_enqueue(p_namespace, p_jobs, null, p_clock, false);
    end if;
    update interlock.schedule x
    set next_at = p_next,
        last_at = case when enqueued then p_last_at else x.last_at end,
        last_job = case when enqueued then ids[cardinality(ids)] else x.last_job end,
        fired = x.fired + case when enqueued then cardinality(ids) else 0 end,
        skipped = x.skipped + case when is_overlap then cardinality(ids) else 0 end,
        missed = x.missed + p_missed,
        firings = interlock.schedule_add_firings(
            p_namespace, p_name, x.firings, case when is_overlap then p_overlap else p_enqueued end, p_kept, now_us)
    where x.namespace = p_namespace and x.name = p_name;
end
$$;
