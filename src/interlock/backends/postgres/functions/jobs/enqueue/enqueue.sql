-- Accept one job from any program, inside its own transaction: select interlock.enqueue('report', '{"account": "a1"}').
-- p_limits: [[key, max_count, seconds]], 0 seconds for slots. Returns the job's ID, or that of the job which has its key. Runs with the rights of the schema's owner, so
-- that a role needs nothing but EXECUTE on it to enqueue; enqueue_many checks the values.
create or replace function interlock.enqueue(
    p_name text, p_arguments jsonb default '{}', p_queue text default 'default', p_lane text default '',
    p_priority integer default 50, p_delay double precision default 0, p_at timestamptz default null,
    p_limits jsonb default '[]', p_on_failure text default 'block', p_coalesce boolean default false,
    p_keep_result double precision default 3600, p_options jsonb default '{}', p_namespace text default 'default',
    p_key text default '', p_keep_key double precision default 86400, p_after bigint[] default null,
    p_if_failed text default 'cancel', p_expires double precision default null, p_expires_at timestamptz default null
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (interlock.enqueue_many(json_build_array(json_build_object(
        'name', p_name, 'arguments', p_arguments, 'queue', p_queue, 'lane', p_lane, 'priority', p_priority, 'delay', p_delay,
        'at', p_at, 'limits', p_limits, 'on_failure', p_on_failure, 'coalesce', p_coalesce, 'keep_result', p_keep_result,
        'options', p_options, 'key', p_key, 'keep_key', p_keep_key, 'after', coalesce(to_json(p_after), '[]'), 'if_failed', p_if_failed,
        'expires', p_expires, 'expires_at', p_expires_at)), p_namespace))[1];
end
$$;
