-- Accept jobs from any program, inside its own transaction: select interlock.enqueue_many('[{"name": "report"}, …]').
-- p_jobs: an array of objects with the fields of the parameters of interlock.enqueue, without their prefix; all but name may
-- be left out. "at" is text. "arguments" may also be text that is a JSON object, which is stored as it is, even with
-- characters that jsonb cannot hold. Further fields are for Interlock's own programs: hooks, cause. p_clock: the time of a
-- test's clock. Returns the jobs' IDs in the order of the array; if the key of a job belongs to another one, that one's ID.
-- Runs with the rights of the schema's owner, so that a role needs nothing but EXECUTE on it to
-- enqueue, and only values that it has checked are stored.
create or replace function interlock.enqueue_many(
    p_jobs json, p_namespace text default 'default', p_clock double precision default null
) returns bigint[]
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select e.ids from interlock.enqueue_jobs(p_jobs, p_namespace, p_clock, null) e);
end
$$;
