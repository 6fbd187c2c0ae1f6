-- Record which queues and jobs a session works on.
create or replace function interlock.job_register_worker(
    p_namespace text, p_session text, p_queues text[], p_names text[], p_runners integer, p_reads jsonb,
    p_queue_runners jsonb default null
) returns void
language sql volatile
as $$
    insert into interlock.job_worker (namespace, session, queues, names, runners, handler_versions, queue_runners)
    values (p_namespace, p_session, p_queues, p_names, p_runners, p_reads, p_queue_runners)
    on conflict (namespace, session) do update
    set queues = excluded.queues, names = excluded.names, runners = excluded.runners, handler_versions = excluded.handler_versions,
        queue_runners = excluded.queue_runners
$$;
