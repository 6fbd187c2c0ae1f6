-- Notify the workers of a queue that jobs may be ready, from this sort key on.
create or replace function interlock.job_notify(p_pool text, p_sort bigint) returns void
language sql volatile
as $$ select pg_notify('interlock_jobs_' || md5(p_pool), p_sort::text) $$;
