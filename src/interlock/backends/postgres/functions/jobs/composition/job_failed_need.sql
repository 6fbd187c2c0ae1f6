-- In words: how a job ended that another one waits for. p_state is null if it is not kept.
create or replace function interlock.job_failed_need(p_id bigint, p_state smallint, p_error text) returns text
language sql immutable
as $$
    select 'job ' || p_id || case
        when p_state is null then ' is no longer kept'
        when p_state = interlock.state_failed() then ' failed'
        else ' was ' || interlock.job_ended_state(p_state) end
        || case when coalesce(p_error, '') <> '' then ': ' || left(p_error, 500) else '' end
$$;
