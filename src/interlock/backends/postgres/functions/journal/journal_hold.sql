-- The journal's record of a lane: its hold with actor and reason, and the failure that parked it.
create or replace function interlock.journal_hold(p_held_by text, p_held_reason text, p_parked_reason text) returns json
language sql immutable
as $$
    select json_build_object('held_by', p_held_by, 'held_reason', p_held_reason, 'parked_reason', p_parked_reason)
$$;
