-- Pause or resume a schedule, or switch it off or on. Answers edited, unchanged or conflict, with the schedule.
-- planner: keys
create or replace function interlock.schedule_set_state(
    p_namespace text, p_name text, p_state text, p_action text, p_attribution jsonb, p_expected bigint, p_next bigint,
    p_clock double precision, out answer text, out schedule jsonb
)
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    before interlock.schedule;
    changed interlock.schedule;
begin
    perform interlock.durably();
    select s.* into before from interlock.schedule s where s.namespace = p_namespace and s.name = p_name for update;
    if before.name is null then
        answer := 'conflict';
        return;
    end if;
    if p_expected is not null and before.version <> p_expected then
        answer := 'conflict';
        schedule := interlock.schedule_view(before, p_clock);
        return;
    end if;
    if before.state = p_state then
        answer := 'unchanged';
        schedule := interlock.schedule_view(before, p_clock);
        return;
    end if;
    update interlock.schedule s
    set version = nextval('interlock.fence'), state = p_state, state_at = now_us, state_by = p_attribution ->> 0,
        state_reason = p_attribution ->> 1, reported = false, next_at = coalesce(p_next, s.next_at)
    where s.namespace = p_namespace and s.name = p_name
    returning s.* into changed;
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, p_action, p_name, interlock.schedule_journal(before),
        interlock.schedule_journal(changed), before.version);
    perform interlock.schedule_notify(p_namespace);
    answer := 'edited';
    schedule := interlock.schedule_view(changed, p_clock);
end
$$;
