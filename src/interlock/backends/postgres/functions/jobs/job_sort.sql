-- The sort key of a job: a point of priority is worth 600 seconds of waiting.
create or replace function interlock.job_sort(p_due_at bigint, p_priority smallint) returns bigint
language sql immutable
as $$ select p_due_at - p_priority * 600000000::bigint $$;
