-- Notify the processes that fire schedules that one has changed.
create or replace function interlock.schedule_notify(p_namespace text) returns void
language sql volatile
as $$ select pg_notify('interlock_schedules_' || md5(p_namespace), '') $$;
