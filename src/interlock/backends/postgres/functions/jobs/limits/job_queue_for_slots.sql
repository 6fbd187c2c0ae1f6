-- Write who waits for slots: jobs that are taken leave the queue of their key, those that wait join it or stay in it.
-- planner: index_reads
create or replace function interlock.job_queue_for_slots(
    p_namespace text, p_pool text, ready interlock.ready_jobs, p_decisions smallint[], p_in_queue bigint[]
) returns void
language plpgsql volatile
as $$
declare
    waiting constant bigint[] := array(
        select u.id from unnest(ready.ids, p_decisions) as u (id, decision) where u.decision = interlock.decision_wait());
begin
    delete from interlock.job_limit_wait w
    where w.id = any (array(
        select u.id from unnest(ready.ids, p_decisions) as u (id, decision)
        where u.decision = interlock.decision_take() and u.id = any (p_in_queue)));
    -- In two steps, so that tickets are drawn in order.
    insert into interlock.job_limit_wait as w (id, ticket, per, max_count, namespace, key, pool, name)
    select x.id, coalesce(x.ticket, nextval('interlock.job_ticket')), 0, x.max, p_namespace, x.key, p_pool, x.name
    from (
        select u.id, u.key, u.max, j.ticket, j.name
        from unnest(ready.ids, ready.keys, ready.maxima, p_decisions) with ordinality as u (id, key, max, decision, n)
        join interlock.job j on j.id = u.id
        where u.decision = interlock.decision_wait() order by u.n
    ) x
    on conflict (id) do update set woken = false;
    update interlock.job j set apart = true where j.id = any (waiting) and j.lane is not null;
end
$$;
