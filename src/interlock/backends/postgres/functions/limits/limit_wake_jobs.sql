-- Let the next fetch make jobs ready that wait under keys where reservations have freed something, and notify the workers.
create or replace function interlock.limit_wake_jobs(p_namespace text, p_keys text[]) returns void
language plpgsql volatile
as $$
declare
    awaited text[] := array(
        select u.key from unnest(p_keys) as u (key)
        where exists (select from interlock.job_limit_wait w where w.key = u.key and w.namespace = p_namespace));
begin
    if awaited <> '{}' then
        insert into interlock.job_slot_freed (namespace, key, max_count, per, count)
        select p_namespace, u.key, 0, 0, 0 from unnest(awaited) as u (key);
        perform interlock.job_notify(x.pool, 9223372036854775807) from (
            select distinct w.pool from interlock.job_limit_wait w where w.key = any (awaited) and w.namespace = p_namespace
        ) x;
    end if;
end
$$;
