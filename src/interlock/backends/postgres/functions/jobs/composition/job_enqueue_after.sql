-- Let new jobs, which are stored already, wait for others. Those must exist already, unfinished or kept in the history, so
-- that no cycle can arise. Whether they have ended is left to the next fetch. p_known: jobs to leave out. p_strict: raise an error if
-- one does not exist; otherwise it counts as not done.
-- planner: lookups
create or replace function interlock.job_enqueue_after(
    p_namespace text, p_jobs interlock.new_jobs, p_known bigint[], p_strict boolean
) returns void
language plpgsql volatile
as $$
declare
    missing record;
begin
    if p_strict then
        select s.id, u.needs into missing
        from unnest(p_jobs.ids, p_jobs.afters) as s (id, after)
        cross join lateral unnest(s.after::bigint[]) as u (needs)
        where s.after is not null and s.id <> all (p_known)
          and not exists (
              select from interlock.job j
              where j.id = u.needs and j.pool >= p_namespace || '/' and j.pool < p_namespace || '0')
          and not exists (
              select from interlock.job_history h
              where h.id = u.needs and h.pool >= p_namespace || '/' and h.pool < p_namespace || '0')
        limit 1;
        if found then
            raise exception 'job % waits for job %, which is unknown or no longer kept', missing.id, missing.needs
                using errcode = 'IL002', hint = 'Enqueue it first, and pass the ID of an unfinished job or of a recent one.';
        end if;
    end if;
    insert into interlock.job_after (needs, id, if_failed)
    select u.needs, s.id, s.if_failed
    from unnest(p_jobs.ids, p_jobs.afters, p_jobs.if_faileds) as s (id, after, if_failed)
    cross join lateral unnest(s.after::bigint[]) as u (needs)
    where s.after is not null and s.id <> all (p_known)
    order by u.needs, s.id
    on conflict do nothing;
    insert into interlock.job_after_signal (namespace, needs)
    select distinct p_namespace, u.needs
    from unnest(p_jobs.ids, p_jobs.afters) as s (id, after)
    cross join lateral unnest(s.after::bigint[]) as u (needs)
    where s.after is not null and s.id <> all (p_known);
end
$$;
