-- Drop a day's partition if it is older than p_before and cannot have rows of other namespaces, but never today's.
-- Returns about how many rows it had.
create or replace function interlock.job_drop_day(p_namespace text, p_before bigint) returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    old record;
    filled boolean;
begin
    p_before := least(p_before, (extract(epoch from clock_timestamp()) * 1000000)::bigint);
    for old in
        select c.relname, greatest(c.reltuples, 0)::integer as rows
        from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'interlock.job_history'::regclass and c.relname < interlock.job_day(p_before)
          and c.relname ~ '^job_history_[0-9]{8}$'
        order by c.relname limit 1000
    loop
        filled := exists (select from interlock.job_namespace n where n.namespace <> p_namespace);
        if filled then
            execute format('select exists (select from interlock.%I)', old.relname) into filled;
        end if;
        continue when filled;
        begin
            execute format('select exists (select from interlock.%I)', old.relname) into filled;
            execute format('drop table interlock.%I', old.relname);
            return greatest(old.rows, filled::integer);
        exception when lock_not_available or undefined_table or deadlock_detected then
            null;
        end;
    end loop;
    return 0;
end
$$;
