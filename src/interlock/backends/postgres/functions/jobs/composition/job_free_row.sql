-- Lock the rows that say where a waiting job is. Returns false if another transaction has locked one: it may be fetching
-- the job.
create or replace function interlock.job_free_row(j interlock.job) returns boolean
language plpgsql volatile
as $$
begin
    perform from interlock.job_ready r
    where r.pool = j.pool and r.class in (interlock.class_usual(), interlock.class_immediate(), interlock.class_suspect())
      and r.sort = interlock.job_sort(j.due_at, j.priority) and r.id = j.id
    for update skip locked;
    if not found and exists (
        select from interlock.job_ready r
        where r.pool = j.pool and r.class in (interlock.class_usual(), interlock.class_immediate(), interlock.class_suspect())
          and r.sort = interlock.job_sort(j.due_at, j.priority) and r.id = j.id)
    then
        return false;
    end if;
    perform from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = j.id for update skip locked;
    if not found and exists (
        select from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = j.id)
    then
        return false;
    end if;
    perform from interlock.job_limit_wait w where w.id = j.id for update skip locked;
    return found or not exists (select from interlock.job_limit_wait w where w.id = j.id);
end
$$;
