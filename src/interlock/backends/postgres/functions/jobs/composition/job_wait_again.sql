-- Let a job that is retried wait again for those of the jobs that its options name which are unfinished. Returns whether
-- there are any. The caller has locked the dependencies of the namespace.
-- planner: lookups
create or replace function interlock.job_wait_again(p_namespace text, p_id bigint, p_options text) returns boolean
language plpgsql volatile
as $$
declare
    options jsonb := nullif(p_options, '');
    if_failed smallint := array_position(array['cancel', 'park', 'run'], options ->> 'if_failed') - 1;
begin
    if options -> 'after' is null then
        return false;
    end if;
    insert into interlock.job_after (needs, id, if_failed)
    select j.id, p_id, coalesce(if_failed, 0)
    from jsonb_array_elements_text(options -> 'after') u
    join interlock.job j on j.id = u::bigint
    order by j.id
    on conflict do nothing;
    if not found then
        return false;
    end if;
    insert into interlock.job_after_signal (namespace, needs)
    select p_namespace, a.needs from interlock.job_after a where a.id = p_id;
    return true;
end
$$;
