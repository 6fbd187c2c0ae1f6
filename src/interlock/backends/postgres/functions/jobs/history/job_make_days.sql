-- Create the partitions of today and the next two days. History is partitioned by day, so that old days are dropped as
-- a whole; rows of other days go to job_history_rest. A time more than a day from the server's clock counts as a day
-- from it. Long reads of the table, or rows that already exist for the day, delay the creation. This function and
-- job_drop_day run with the rights of the schema's owner, who alone may create and drop tables. So they trust no
-- caller: days are counted by the server's clock, names are fixed, and only workers may execute them.
create or replace function interlock.job_make_days(p_now bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    day constant bigint := 86400000000;
    server_now constant bigint := extract(epoch from clock_timestamp()) * 1000000;
    first bigint;
    name text;
begin
    p_now := coalesce(least(greatest(p_now, server_now - day), server_now + day), server_now);
    for ahead in 0 .. 2 loop
        first := p_now / day * day + ahead * day;
        name := interlock.job_day(first);
        continue when to_regclass('interlock.' || name) is not null;
        begin
            execute format('create table interlock.%I (like interlock.job_history including all)', name);
            execute format('alter table interlock.job_history attach partition interlock.%I for values from (%s) to (%s)',
                           name, first, first + day);
        exception when lock_not_available or check_violation or duplicate_table or deadlock_detected then
            null;
        end;
    end loop;
end
$$;
