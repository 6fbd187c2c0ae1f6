-- Accept jobs of which some have keys; see job_enqueue and job_take_keys. Jobs whose key another one holds are left out.
-- p_again: an earlier call may have stored some of them. Returns the holder of each job's key, null without a key.
-- planner: lookups
create or replace function interlock.job_enqueue_keyed(
    p_namespace text, p_jobs interlock.new_jobs, p_again boolean, p_clock double precision
) returns bigint[]
language plpgsql volatile
as $$
declare
    keys record;
    known bigint[];
    noted bigint[] := '{}';
    keyless interlock.new_jobs := p_jobs;
begin
    keyless.keys := null;
    if p_again then
        with new as (
            insert into interlock.job_resubmitted as a (id, at)
            select u.id, interlock.micros(interlock.now_or(p_clock)) from unnest(p_jobs.ids) as u (id) order by u.id
            on conflict do nothing returning a.id
        )
        select coalesce(array_agg(new.id), '{}') into noted from new;
    elsif exists (select from interlock.job_resubmitted) then
        noted := array(
            select u.id from unnest(p_jobs.ids) as u (id)
            where u.id not in (select a.id from interlock.job_resubmitted a where a.id = any (p_jobs.ids)));
    else
        noted := p_jobs.ids;
    end if;
    loop
        begin
            keys := interlock.job_take_keys(p_namespace, p_jobs, interlock.micros(interlock.now_or(p_clock)), true);
            -- A job with a key has to have got it just now. An earlier call may have stored it, and it may even have ended.
            known := array(
                select s.id
                from unnest(p_jobs.ids, keys.holders) as s (id, holder)
                left join unnest(keys.fresh) as f (id) on f.id = s.id
                left join unnest(noted) as o (id) on o.id = s.id
                where s.holder is not null and f.id is null
                   or o.id is null and not (p_again and s.holder is not null)
                   or p_again and (exists (select from interlock.job j where j.id = s.id)
                                   or exists (select from interlock.job_history h where h.id = s.id)));
            perform interlock.job_enqueue(p_namespace, keyless, known, p_clock);
            -- Jobs without a key may have been sent again, and may even have ended, while this call waited for a key.
            if not p_again and exists (
                select from interlock.job_resubmitted a where a.id = any (p_jobs.ids) and a.id <> all (known))
            then
                raise unique_violation using message = 'jobs that were sent again meanwhile';
            end if;
            return keys.holders;
        exception when unique_violation then
            if not p_again then
                raise;
            end if;
        end;
    end loop;
end
$$;
