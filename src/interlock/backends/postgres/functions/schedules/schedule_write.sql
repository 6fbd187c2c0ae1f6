-- Create or replace a schedule, which the caller has locked if it exists; return it. p_definition has the columns of a
-- definition by name. The state changes only if it is another one. If the timing stays, so does the next time: it may be due,
-- or have been fired just now.
-- planner: caller
create or replace function interlock.schedule_write(
    p_namespace text, p_name text, p_origin text, p_state text, p_definition jsonb, p_anchor bigint, p_next bigint,
    p_declaration text, p_replaced text[], p_edit text, p_attribution jsonb, p_now bigint
) returns setof interlock.schedule
language sql volatile
as $$
    insert into interlock.schedule as s (
        namespace, name, version, origin, state, job, arguments, cron, every, timezone, misfire, grace, overlap, jitter,
        template, anchor_at, next_at, created_at, updated_at, updated_by, state_at, state_by, state_reason, declaration,
        replaced, edit)
    values (
        p_namespace, p_name, nextval('interlock.fence'), p_origin, p_state, p_definition ->> 'job',
        p_definition ->> 'arguments', p_definition ->> 'cron', (p_definition ->> 'every')::bigint,
        p_definition ->> 'timezone', p_definition ->> 'misfire', (p_definition ->> 'grace')::bigint,
        p_definition ->> 'overlap', (p_definition ->> 'jitter')::bigint, p_definition ->> 'template', p_anchor, p_next,
        p_now, p_now, p_attribution ->> 0, p_now, p_attribution ->> 0, p_attribution ->> 1, p_declaration, p_replaced,
        p_edit)
    on conflict (namespace, name) do update set
        version = excluded.version, origin = excluded.origin, job = excluded.job, arguments = excluded.arguments,
        cron = excluded.cron, every = excluded.every, timezone = excluded.timezone, misfire = excluded.misfire,
        grace = excluded.grace, overlap = excluded.overlap, jitter = excluded.jitter, template = excluded.template,
        anchor_at = excluded.anchor_at,
        next_at = case
            when s.state <> 'paused'
                and (s.cron, s.every, s.timezone) = (excluded.cron, excluded.every, excluded.timezone)
            then coalesce(s.next_at, excluded.next_at)
            else excluded.next_at
        end,
        updated_at = excluded.updated_at,
        updated_by = excluded.updated_by, declaration = excluded.declaration, replaced = excluded.replaced,
        edit = excluded.edit, reported = false, state = excluded.state,
        state_at = case when excluded.state = s.state then s.state_at else excluded.state_at end,
        state_by = case when excluded.state = s.state then s.state_by else excluded.state_by end,
        state_reason = case when excluded.state = s.state then s.state_reason else excluded.state_reason end
    returning s.*
$$;
