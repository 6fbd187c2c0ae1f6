-- Let writers of one schedule take turns, also of one that does not exist yet.
create or replace function interlock.schedule_lock(p_namespace text, p_name text) returns void
language sql volatile
as $$ select pg_advisory_xact_lock(1229870163, hashtext(p_namespace || '/' || p_name)) $$;
