-- Remove jobs from the queues of limits. Jobs behind them may run.
create or replace function interlock.job_leave_limit_queues(p_namespace text, p_ids bigint[]) returns text[]
language plpgsql volatile
as $$
declare
    keys text[];
begin
    with gone as (
        delete from interlock.job_limit_wait w where w.id = any (p_ids) returning w.key
    )
    select array_agg(distinct gone.key) into keys from gone;
    insert into interlock.job_slot_freed (namespace, key, max_count, per, count)
    select p_namespace, u.key, 0, 0, 0 from unnest(keys) as u (key);
    perform interlock.limit_notify_waiting(p_namespace, keys, interlock.micros(clock_timestamp()));
    return keys;
end
$$;
