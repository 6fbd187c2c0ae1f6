-- Accept jobs that an earlier call may have stored. Jobs that are or were stored are left as they are. The earlier call may
-- still be running, and a job that it stored may end between two checks.
-- planner: lookups
create or replace function interlock.job_enqueue_again(
    p_namespace text, p_jobs interlock.new_jobs, p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    fresh bigint[];
    known bigint[];
begin
    with noted as (
        insert into interlock.job_resubmitted as a (id, at)
        select u.id, interlock.micros(interlock.now_or(p_clock)) from unnest(p_jobs.ids) as u (id) order by u.id
        on conflict do nothing returning a.id
    )
    select coalesce(array_agg(noted.id), '{}') into fresh from noted;
    loop
        -- Also what an earlier repetition stored, even if nothing is left of it.
        known := array(
            select j.id from interlock.job j where j.id = any (p_jobs.ids)
            union
            select h.id from interlock.job_history h where h.id = any (p_jobs.ids)
            union
            select u.id from unnest(p_jobs.ids) as u (id) where u.id <> all (fresh));
        begin
            perform interlock.job_enqueue(p_namespace, p_jobs, known, p_clock);
            if exists (select from interlock.job_history h where h.id = any (p_jobs.ids) and h.id <> all (known)) then
                raise unique_violation;
            end if;
            return;
        exception when unique_violation then
            null;
        end;
    end loop;
end
$$;
