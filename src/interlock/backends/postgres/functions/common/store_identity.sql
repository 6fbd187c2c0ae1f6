-- What distinguishes this database from others, also from copies of it: its object ID, and when the schema was created. Runs
-- with the rights of the schema's owner, so that every role that enqueues can compare it.
create or replace function interlock.store_identity() returns text
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    select concat_ws('.', (select d.oid from pg_database d where d.datname = current_database()),
                     (select (extract(epoch from m.applied_at) * 1000000)::bigint from interlock.migration m where m.version = 1))
$$;
