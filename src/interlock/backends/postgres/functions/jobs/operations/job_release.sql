-- Release a lane that is held or parked. Returns false if it was neither.
create or replace function interlock.job_release(p_namespace text, p_lane text, p_attribution jsonb, p_clock double precision) returns boolean
language plpgsql volatile
as $$
declare
    held text := p_namespace || '/' || p_lane;
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    l interlock.job_lane;
begin
    perform interlock.durably();
    select * into l from interlock.job_lane x
    where x.lane = held and (x.held_since is not null or x.parked_since is not null) for update;
    if not found then
        return false;
    end if;
    update interlock.job_lane x
    set held_since = null, held_by = null, held_reason = null, parked_since = null, parked_reason = null
    where x.lane = held;
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, 'lane.release', p_lane,
        interlock.journal_hold(l.held_by, l.held_reason, l.parked_reason), interlock.journal_hold(null, null, null));
    perform interlock.job_advance_lane(p_namespace, held, null, now_us);
    return true;
end
$$;
