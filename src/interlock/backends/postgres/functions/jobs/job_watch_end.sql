-- Let a session watch the end of jobs. Returns those that have already ended. A transaction that is ending one of them
-- is waited for, or waits for this one and then sees the watch.
create or replace function interlock.job_watch_end(p_namespace text, p_session text, p_ids bigint[]) returns bigint[]
language plpgsql volatile
as $$
declare
    unfinished bigint[];
    over bigint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    delete from interlock.job_watch a where a.session = p_session and a.namespace = p_namespace and a.ended;
    insert into interlock.job_watch (id, session, namespace)
    select distinct u.id, p_session, p_namespace from unnest(p_ids) as u (id) on conflict do nothing;
    unfinished := array(
        select j.id from interlock.job j
        where j.id = any (p_ids) and j.pool >= p_namespace || '/' and j.pool < p_namespace || '0'
        order by j.id for key share);
    over := array(select distinct u.id from unnest(p_ids) as u (id) where u.id <> all (unfinished));
    delete from interlock.job_watch a where a.session = p_session and a.id = any (over);
    return over;
end
$$;
