-- The journal's record of a queue: who paused it and why.
create or replace function interlock.journal_pause(p_paused_by text, p_reason text) returns json
language sql immutable
as $$
    select json_build_object('paused_by', p_paused_by, 'paused_reason', p_reason)
$$;
