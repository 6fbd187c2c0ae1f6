-- Create or replace a schedule that has the expected version (0 if there must be none). Answers edited or conflict, with
-- the schedule. An edit with an ID that is already stored is reported as done.
-- planner: keys
create or replace function interlock.schedule_save(
    p_namespace text, p_name text, p_expected bigint, p_definition jsonb, p_active boolean, p_anchor bigint,
    p_next bigint, p_attribution jsonb, p_edit text, p_clock double precision, out answer text, out schedule jsonb
)
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    before interlock.schedule;
    saved interlock.schedule;
begin
    perform interlock.durably();
    perform interlock.schedule_lock(p_namespace, p_name);
    select s.* into before from interlock.schedule s where s.namespace = p_namespace and s.name = p_name for update;
    if before.edit = p_edit then
        answer := 'edited';
        schedule := interlock.schedule_view(before, p_clock);
        return;
    end if;
    if coalesce(before.version, 0) <> p_expected or before.origin = 'code' then
        answer := 'conflict';
        if before.name is not null then
            schedule := interlock.schedule_view(before, p_clock);
        end if;
        return;
    end if;
    select w.* into saved from interlock.schedule_write(
        p_namespace, p_name, 'stored', case when p_active then 'active' else 'paused' end, p_definition, p_anchor, p_next, '',
        '{}', p_edit, p_attribution, now_us) w;
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, 'schedule.save', p_name,
        case when before.name is not null then interlock.schedule_journal(before) end, interlock.schedule_journal(saved),
        before.version);
    perform interlock.schedule_notify(p_namespace);
    answer := 'edited';
    schedule := interlock.schedule_view(saved, p_clock);
end
$$;
