-- Tell who waits for the end of jobs. Comes after the statement that removed them: one who began to wait before that
-- has locked the job and is seen by now; one who begins later sees that it has gone.
create or replace function interlock.job_notify_ends(p_namespace text, p_ids bigint[]) returns void
language plpgsql volatile
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = on
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    told record;
begin
    if not exists (select from interlock.job_watch) then
        return;
    end if;
    for told in
        with waiting as materialized (
            select a.id, a.session from interlock.job_watch a
            where a.id = any (p_ids) and a.namespace = p_namespace and not a.ended order by a.id, a.session for update
        )
        update interlock.job_watch a set ended = true from waiting w where a.id = w.id and a.session = w.session
        returning a.session, a.id
    loop
        perform pg_notify('interlock_' || told.session, 'turn ' || told.session || '.j' || told.id);
    end loop;
end
$$;
