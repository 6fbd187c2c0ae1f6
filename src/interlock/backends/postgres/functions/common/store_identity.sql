-- What distinguishes this database from others, also from copies of it: its object ID, and when the schema was created.
create or replace function interlock.store_identity() returns text
language sql stable
as $$
    select concat_ws('.', (select d.oid from pg_catalog.pg_database d where d.datname = current_database()),
                     (select (extract(epoch from m.applied_at) * 1000000)::bigint from interlock.migration m where m.version = 1))
$$;
