-- End a job that is not fetched, or request the end of one that is, unless p_unless_fetched. Returns the state afterwards;
-- null if the job is unknown.
create or replace function interlock.job_cancel(
    p_namespace text, p_id bigint, p_attribution jsonb, p_clock double precision, p_unless_fetched boolean default false
) returns text
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    j interlock.job;
    locked text;
    c record;
    told text := 'cancelled by ' || (p_attribution ->> 0) || ': ' || (p_attribution ->> 1);
    before text;
    ended smallint;
begin
    perform interlock.durably();
    if not exists (select from interlock.job_namespace n where n.namespace = p_namespace) then
        insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
    end if;
    if exists (select from interlock.job_after a where a.id = p_id) then
        perform interlock.job_composition_lock(p_namespace, true);
    end if;
    loop
        j := interlock.job_of(p_namespace, p_id);
        if j.id is null then
            select h.state into ended from interlock.job_history h
            where h.id = p_id and h.pool >= p_namespace || '/' and h.pool < p_namespace || '0';
            perform interlock.job_advance_lane(p_namespace, locked, null, now_us);
            return interlock.job_ended_state(ended);
        end if;
        if j.lane is not null then
            locked := j.lane;
            perform interlock.job_lane_lock(p_namespace, locked);
            j := interlock.job_of(p_namespace, p_id);
            continue when j.id is null;
        elsif j.parked is not null or j.unreadable then
            select * into j from interlock.job x
            where x.id = p_id and (x.parked is not null or x.unreadable) for update;
            continue when not found;
        end if;
        select x.fence, x.session into c from interlock.job_fetched x
        where x.namespace = p_namespace and p_id = any (x.ids);
        if found then
            if p_unless_fetched then
                return interlock.job_state(j, p_namespace);
            end if;
            -- Unless that fetch is ending now.
            update interlock.job x set cancelled = told where x.id = p_id and x.fence < c.fence;
            continue when not found;
            before := interlock.job_state(j, p_namespace);
            if j.cancelled is distinct from told then
                perform interlock.journal_add(
                    p_namespace, now_us, p_attribution, 'job.cancel', p_id::text, json_build_object('state', before),
                    json_build_object('state', before, 'cancel_requested', true), c.fence);
            end if;
            perform interlock.job_interrupt(p_namespace, c.session, p_id, c.fence, told, now_us);
            return before;
        end if;
        before := interlock.job_state(j, p_namespace);
        if p_unless_fetched and j.attempts is not null then
            return before; -- it has started before, and waits to go on
        end if;
        exit when interlock.job_detach(p_namespace, j);
    end loop;
    perform interlock.job_end(p_namespace, array[p_id], interlock.state_cancelled(), null, told, now_us);
    perform interlock.job_advance_lane(
        p_namespace, j.lane, array(select u.key from interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u order by 1),
        now_us);
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, 'job.cancel', p_id::text, json_build_object('state', before),
        json_build_object('state', 'cancelled'));
    return 'cancelled';
end
$$;
