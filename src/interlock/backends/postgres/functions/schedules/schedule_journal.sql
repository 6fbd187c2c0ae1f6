-- A schedule as the journal shows it.
create or replace function interlock.schedule_journal(p_schedule interlock.schedule) returns json
language sql stable
as $$
    select (jsonb_build_object('job', p_schedule.job)
        || case when p_schedule.cron <> ''
               then jsonb_build_object('cron', p_schedule.cron, 'timezone', p_schedule.timezone)
               else jsonb_build_object('every', (p_schedule.every / 1e6)::float8) end
        || jsonb_build_object(
            'arguments', p_schedule.arguments, 'misfire', p_schedule.misfire, 'grace', (p_schedule.grace / 1e6)::float8,
            'overlap', p_schedule.overlap, 'jitter', (p_schedule.jitter / 1e6)::float8, 'state', p_schedule.state))::json
$$;
