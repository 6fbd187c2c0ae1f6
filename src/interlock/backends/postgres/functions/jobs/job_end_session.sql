-- What a session said and waits for ends with it. Its jobs are rescued by who is alive.
create or replace function interlock.job_end_session(p_namespace text, p_session text) returns void
language plpgsql volatile
as $$
begin
    delete from interlock.job_worker w where w.namespace = p_namespace and w.session = p_session;
    -- In order, as those are told whose jobs end.
    perform from interlock.job_watch a
    where a.session = p_session and a.namespace = p_namespace order by a.id for update;
    delete from interlock.job_watch a where a.session = p_session and a.namespace = p_namespace;
end
$$;
