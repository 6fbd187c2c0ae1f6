-- Tell workers of a queue that something became ready, unless it is only the session's own ones, which are told otherwise.
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
