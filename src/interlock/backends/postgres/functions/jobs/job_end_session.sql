-- Remove the registration and the watches of a session that ends. Its jobs are rescued by live workers.
create or replace function interlock.job_end_session(p_namespace text, p_session text) returns void
language plpgsql volatile
as $$
begin
    delete from interlock.job_worker w where w.namespace = p_namespace and w.session = p_session;
    -- In the order in which job_notify_ends locks them.
    perform from interlock.job_watch a
    where a.session = p_session and a.namespace = p_namespace order by a.id for update;
    delete from interlock.job_watch a where a.session = p_session and a.namespace = p_namespace;
end
$$;
