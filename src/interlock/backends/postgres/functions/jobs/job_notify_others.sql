-- Notify the workers of a queue that a job became ready, unless only the session's own worker, which knows already,
-- serves it.
create or replace function interlock.job_notify_others(p_namespace text, p_session text, p_pool text, p_sort bigint) returns void
language plpgsql volatile
as $$
begin
    if not exists (select from interlock.job_worker w where w.namespace = p_namespace and w.session = p_session)
       or exists (select from interlock.job_worker w where w.namespace = p_namespace and w.session <> p_session) then
        perform interlock.job_notify(p_pool, p_sort);
    end if;
end
$$;
