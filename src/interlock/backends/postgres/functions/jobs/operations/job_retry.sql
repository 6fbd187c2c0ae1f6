-- Make a job ready now that is scheduled, parked, or has ended without being done. It waits again for those of the jobs that
-- it waited for which are unfinished, and does not expire any more. Jobs that are parked because it failed go on waiting for
-- it. Returns the state afterwards; null if the job is unknown.
create or replace function interlock.job_retry(p_namespace text, p_id bigint, p_attribution jsonb, p_clock double precision) returns text
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    j interlock.job;
    h interlock.job_history;
    locked text;
    before text;
    after text;
    blocked boolean := false;
begin
    perform interlock.durably();
    perform interlock.job_composition_lock(p_namespace, true);
    loop
        j := interlock.job_of(p_namespace, p_id);
        if j.id is null then
            select * into h from interlock.job_history x
            where x.id = p_id and x.pool >= p_namespace || '/' and x.pool < p_namespace || '0';
            if not found or h.state in (interlock.state_done(), interlock.state_superseded()) then
                perform interlock.job_advance_lane(p_namespace, locked, null, now_us);
                return interlock.job_ended_state(h.state);
            end if;
            if h.lane is not null then
                locked := h.lane;
                perform interlock.job_lane_lock(p_namespace, locked);
            end if;
            before := interlock.job_ended_state(h.state);
            delete from interlock.job_history x where x.id = p_id and x.finished_at = h.finished_at;
            continue when not found;
            delete from interlock.job_result r where r.id = p_id;
            blocked := interlock.job_wait_again(p_namespace, p_id, h.options);
            insert into interlock.job as x (
                id, position, enqueued_at, due_at, fence, keep_result, use_per, use_max_count, priority, last_outcome, on_failure,
                coalesces, paced, pool, name, lane, use_key, uses, arguments, options, hooks, cause, attempts)
            values (h.id, case when h.lane is not null and not blocked then nextval('interlock.job_position') end, h.enqueued_at, now_us,
                    h.fence, h.keep_result, h.use_per, h.use_max_count, h.priority, h.last_outcome, h.on_failure, h.coalesces, h.paced,
                    h.pool, h.name, h.lane, h.use_key, h.uses, h.arguments, h.options, h.hooks, h.cause,
                    h.attempts)
            returning x.* into j;
            perform interlock.job_awaited_again(p_id);
            exit;
        end if;
        if j.lane is not null then
            locked := j.lane;
            perform interlock.job_lane_lock(p_namespace, locked);
            j := interlock.job_of(p_namespace, p_id);
            continue when j.id is null;
        end if;
        before := case when j.parked is null then 'scheduled' else 'parked' end;
        if j.parked is null then
            delete from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = p_id;
            if not found then
                perform interlock.job_advance_lane(p_namespace, locked, null, now_us);
                return interlock.job_state(j, p_namespace);
            end if;
        end if;
        if exists (select from interlock.job_after a where a.id = p_id) then
            delete from interlock.job_after a
            where a.id = p_id and not exists (select from interlock.job x where x.id = a.needs);
            blocked := exists (select from interlock.job_after a where a.id = p_id);
        end if;
        update interlock.job x
        set parked = null, unreadable = false, unreadable_by = null, due_at = now_us, apart = false, expires_at = null,
            position = case when x.lane is not null and not blocked then coalesce(x.position, nextval('interlock.job_position')) end
        where x.id = p_id and x.parked is not distinct from j.parked
        returning x.* into j;
        exit when found;
    end loop;
    if blocked then
        perform interlock.job_notify(j.pool, 9223372036854775807);
    elsif j.lane is null then
        perform interlock.job_notify(u.pool, u.sort)
        from interlock.job_make_ready(p_namespace, array[p_id]) m
        cross join lateral unnest(m.pools, m.sorts) as u (pool, sort);
    else
        perform interlock.job_advance_lane(p_namespace, j.lane, null, now_us);
    end if;
    after := interlock.job_state(j, p_namespace);
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, 'job.retry', p_id::text, json_build_object('state', before),
        json_build_object('state', after));
    return after;
end
$$;
