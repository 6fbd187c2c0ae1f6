-- Notify sessions that watch the end of jobs, and signal it to jobs that wait for it. Comes after the statement that removed
-- the jobs: a session that began to watch before has locked the job and is visible now; one that begins later sees that the
-- job is gone. Only the end of its session locks a watch: such a session need not be notified, and a transaction that ends
-- jobs in several steps would lock watches in another order.
-- planner: lookups
create or replace function interlock.job_notify_ends(p_namespace text, p_ids bigint[]) returns void
language plpgsql volatile
as $$
declare
    told record;
begin
    if exists (select from interlock.job_after) then
        perform interlock.job_signal_ends(p_namespace, p_ids);
    end if;
    if not exists (select from interlock.job_watch) then
        return;
    end if;
    for told in
        with waiting as materialized (
            select a.id, a.session from interlock.job_watch a
            where a.id = any (p_ids) and a.namespace = p_namespace and not a.ended order by a.id, a.session
            for update skip locked
        )
        update interlock.job_watch a set ended = true from waiting w where a.id = w.id and a.session = w.session
        returning a.session, a.id
    loop
        perform pg_notify('interlock_' || told.session, 'turn ' || told.session || '.j' || told.id);
    end loop;
end
$$;
