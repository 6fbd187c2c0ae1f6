-- A schedule as a JSON array of the values of the port, in their order; times are microseconds.
create or replace function interlock.schedule_view(p_schedule interlock.schedule, p_clock double precision) returns jsonb
language sql volatile
as $$
    select jsonb_build_array(
        p_schedule.name, p_schedule.version, p_schedule.origin, p_schedule.state, p_schedule.job, p_schedule.arguments,
        p_schedule.cron, p_schedule.every, p_schedule.timezone, p_schedule.misfire, p_schedule.grace, p_schedule.overlap,
        p_schedule.jitter, p_schedule.template, p_schedule.anchor_at, p_schedule.next_at, p_schedule.created_at,
        p_schedule.updated_at, p_schedule.updated_by, p_schedule.state_at, p_schedule.state_by, p_schedule.state_reason,
        p_schedule.last_at, p_schedule.last_job, p_schedule.fired, p_schedule.skipped, p_schedule.missed,
        p_schedule.declaration, p_schedule.reported,
        (select count(*) from interlock.schedule_declaration d
         join interlock.session x
           on x.namespace = d.namespace and x.id = d.session and x.expires_at > interlock.now_or(p_clock)
         where d.namespace = p_schedule.namespace and d.name = p_schedule.name))
$$;
