-- Remove a job that is not fetched from the tables of ready, scheduled, waiting and blocked jobs. Returns false if another
-- transaction moved it meanwhile. A woken job is both in a limit's queue and ready, and leaves the latter first. Its
-- lane, if any, is locked.
create or replace function interlock.job_detach(p_namespace text, j interlock.job) returns boolean
language plpgsql volatile
as $$
begin
    if exists (select from interlock.job_after a where a.id = j.id) then
        delete from interlock.job_after a where a.id = j.id;
        return true;
    end if;
    delete from interlock.job_ready r
    where r.pool = j.pool and r.class in (interlock.class_usual(), interlock.class_immediate(), interlock.class_suspect())
      and r.sort = interlock.job_sort(j.due_at, j.priority) and r.id = j.id;
    if found then
        perform interlock.job_leave_limit_queues(p_namespace, array[j.id]);
        return true;
    end if;
    delete from interlock.job_scheduled l where l.pool = j.pool and l.at = j.due_at and l.id = j.id;
    if found then
        return true;
    end if;
    if exists (select from interlock.job_limit_wait w where w.id = j.id and (not w.woken or j.lane is not null)) then
        delete from interlock.job_limit_wait w where w.id = j.id and (not w.woken or j.lane is not null);
        if not found then
            return false;
        end if;
        insert into interlock.job_slot_freed (namespace, key, max_count, per, count)
        select p_namespace, u.key, 0, 0, 0 from interlock.job_uses(j.use_key, j.use_max_count, j.use_per, j.uses) u;
        return true;
    end if;
    return j.lane is not null or j.parked is not null or j.unreadable;
end
$$;
