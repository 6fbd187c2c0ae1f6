-- Remove a schedule and its firings. Answers deleted or conflict, with the schedule.
-- planner: keys
create or replace function interlock.schedule_delete(
    p_namespace text, p_name text, p_attribution jsonb, p_expected bigint, p_clock double precision,
    out answer text, out schedule jsonb
)
language plpgsql volatile
as $$
declare
    before interlock.schedule;
begin
    perform interlock.durably();
    select s.* into before from interlock.schedule s where s.namespace = p_namespace and s.name = p_name for update;
    answer := 'conflict';
    if before.name is null then
        return;
    end if;
    schedule := interlock.schedule_view(before, p_clock);
    if p_expected is not null and before.version <> p_expected then
        return;
    end if;
    delete from interlock.schedule s where s.namespace = p_namespace and s.name = p_name;
    delete from interlock.schedule_firing f where f.namespace = p_namespace and f.name = p_name;
    perform interlock.journal_add(
        p_namespace, interlock.micros(interlock.now_or(p_clock)), p_attribution, 'schedule.delete', p_name,
        interlock.schedule_journal(before), null, before.version);
    perform interlock.schedule_notify(p_namespace);
    answer := 'deleted';
end
$$;
