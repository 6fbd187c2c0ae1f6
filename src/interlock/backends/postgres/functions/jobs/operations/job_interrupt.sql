-- Notify a session that it has lost a fetched job, also if it receives no notifications. The message names the fetch,
-- because the same session may fetch the job again.
create or replace function interlock.job_interrupt(
    p_namespace text, p_session text, p_id bigint, p_fence bigint, p_why text, p_now bigint
) returns void
language plpgsql volatile
as $$
declare
    whose text := p_session || '.' || p_fence || '.j' || p_id;
begin
    insert into interlock.forced as f (namespace, session, owner, why, at)
    values (p_namespace, p_session, whose, p_why, to_timestamp(p_now / 1e6))
    on conflict (namespace, session, owner) do update set why = excluded.why, at = excluded.at;
    perform pg_notify('interlock_' || p_session, left('lost ' || whose || ' ' || p_why, 2000));
end
$$;
