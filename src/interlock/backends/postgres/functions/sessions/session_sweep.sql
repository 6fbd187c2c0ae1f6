-- Remove a bounded number of sessions that ended more than an hour ago with their leftovers, and of keys that have long
-- been free.
create or replace function interlock.session_sweep(p_namespace text, p_clock double precision) returns integer
language plpgsql volatile
set lock_timeout = '1s'
as $$
declare
    gone record;
    swept integer := 0;
    removed integer;
    now_is timestamptz := interlock.now_or(p_clock);
begin
    for gone in
        select s.id from interlock.session s
        where s.namespace = p_namespace and s.expires_at < now_is - interval '1 hour'
        order by s.id limit 100 for update skip locked
    loop
        perform interlock.session_end(p_namespace, gone.id, p_clock);
        with held as (
            select l.namespace, l.key from interlock.lock l
            where l.namespace = p_namespace and l.session = gone.id and l.owner is not null for update skip locked
        )
        update interlock.lock l
        set owner = null, ended_owner = l.owner, ended_why = 'its session ended', free_since = now_is
        from held where l.namespace = held.namespace and l.key = held.key;
        delete from interlock.session s
        where s.namespace = p_namespace and s.id = gone.id
          and not exists (
              select from interlock.lock l
              where l.namespace = p_namespace and l.session = gone.id and l.owner is not null);
        swept := swept + 1;
    end loop;
    with idle as (
        select l.namespace, l.key from interlock.lock l
        where l.namespace = p_namespace and l.owner is null and l.free_since < now_is - interval '1 minute'
          and not exists (select from interlock.waiter w where w.namespace = l.namespace and w.key = l.key)
        limit 10000 for update skip locked
    )
    delete from interlock.lock l using idle where l.namespace = idle.namespace and l.key = idle.key;
    get diagnostics removed = row_count;
    delete from interlock.forced f where f.namespace = p_namespace and f.at < now_is - interval '1 hour';
    return swept + removed;
end
$$;
