-- Enqueue jobs through a schedule because a person wants them; return the schedule, or null if there is none. Jobs that an
-- earlier call has enqueued are left alone.
-- planner: keys
create or replace function interlock.schedule_enqueue(
    p_namespace text, p_name text, p_action text, p_rows jsonb, p_kept integer, p_attribution jsonb,
    p_jobs interlock.new_jobs, p_clock double precision
) returns jsonb
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    ids bigint[] := p_jobs.ids;
    last bigint := ids[cardinality(ids)];
    s interlock.schedule;
begin
    perform interlock.durably();
    select x.* into s from interlock.schedule x where x.namespace = p_namespace and x.name = p_name for update;
    if s.name is null then
        return null;
    end if;
    if exists (
        select from interlock.schedule_firing f where f.job = last and f.namespace = p_namespace and f.name = p_name) then
        return interlock.schedule_view(s, p_clock);
    end if;
    perform interlock.job_enqueue(p_namespace, p_jobs, null, p_clock, false);
    update interlock.schedule x
    set last_job = last, fired = x.fired + cardinality(ids),
        firings = interlock.schedule_add_firings(p_namespace, p_name, x.firings, p_rows, p_kept, now_us)
    where x.namespace = p_namespace and x.name = p_name
    returning x.* into s;
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, p_action, p_name, null,
        json_build_object('jobs', cardinality(ids), 'first_job', ids[1], 'last_job', last), s.version);
    return interlock.schedule_view(s, p_clock);
end
$$;
