-- Notify the next reservations under the keys of an ended session. No key is locked for that: its rows are removed by
-- the next operation on the key.
create or replace function interlock.limit_session_end(
    p_namespace text, p_session text, p_stale bigint, p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    used text;
begin
    for used in
        select distinct u.key from interlock.limit_use u where u.namespace = p_namespace and u.session = p_session
    loop
        perform interlock.limit_wake_jobs(p_namespace, array[used]);
        perform interlock.limit_notify_next(p_namespace, used, p_session, now_is, interlock.micros(now_is) - p_stale);
    end loop;
end
$$;
