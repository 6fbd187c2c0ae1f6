-- Advance the sequences when the server's timeline has changed: on a new timeline they may be behind numbers that were
-- drawn on the old one. A connection calls this before anything else, so that no number is drawn before. 2^32 per
-- timeline is more than can have been lost. Runs with the rights of the schema's owner, because only the owner may set
-- sequences.
create or replace function interlock.follow_timeline() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    current bigint := ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint;
    known bigint := (select t.number from interlock.timeline t);
    ahead bigint;
begin
    if known = current then
        return;
    end if;
    insert into interlock.timeline (number) values (current) on conflict do nothing;
    select t.number into known from interlock.timeline t for update;
    if known <> current then
        ahead := greatest(current - known, 1) << 32;
        perform setval('interlock.fence', nextval('interlock.fence') + ahead);
        perform setval('interlock.job_id', nextval('interlock.job_id') + ahead);
        update interlock.timeline set number = current;
    end if;
end
$$;
