-- End the hold and the parking of a lane; false if there was neither.
create or replace function interlock.job_release(p_namespace text, p_lane text, p_clock double precision) returns boolean
language plpgsql volatile
as $$
declare
    held text := p_namespace || '/' || p_lane;
begin
    perform interlock.durably();
    update interlock.job_lane l
    set held_since = null, held_by = null, held_reason = null, parked_since = null, parked_reason = null
    where l.lane = held and (l.held_since is not null or l.parked_since is not null);
    if not found then
        return false;
    end if;
    perform interlock.job_advance_lane(p_namespace, held, null, interlock.micros(interlock.now_or(p_clock)));
    return true;
end
$$;
