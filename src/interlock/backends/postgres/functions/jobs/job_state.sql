-- The state of an unfinished job.
create or replace function interlock.job_state(j interlock.job, p_namespace text) returns text
language sql stable
as $$
    select case
        when j.parked is not null then 'parked'
        when exists (select from interlock.job_fetched c where c.namespace = p_namespace and j.id = any (c.ids)) then
            case when j.id in (select s.id from interlock.job_started_ids(p_namespace) s) then 'running' else 'fetched' end
        when exists (select from interlock.job_after a where a.id = j.id) then 'blocked'
        when exists (
            select from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = j.id) then 'scheduled'
        when exists (select from interlock.job_limit_wait w where w.id = j.id and not w.woken) then 'waiting'
        when j.lane is null then 'ready'
        when exists (
            select from interlock.job x
            where x.lane = j.lane and x.position < coalesce(j.position, 9223372036854775807)) then 'behind'
        when exists (
            select from interlock.job_lane l
            where l.lane = j.lane and (l.held_since is not null or l.parked_since is not null)) then 'held'
        else 'ready' end
$$;
