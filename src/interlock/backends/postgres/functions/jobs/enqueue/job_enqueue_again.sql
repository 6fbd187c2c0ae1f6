-- The same for jobs that an earlier call may have stored: those that are or were there are left as they are. That call may
-- be under way still; and what it stored may come to its end between two looks.
-- planner: lookups
create or replace function interlock.job_enqueue_again(
    p_namespace text, p_ids bigint[], p_kinds integer[], p_lanes text[], p_delays double precision[],
    p_ats double precision[], p_arguments text[], p_names text[], p_queues text[], p_priorities integer[],
    p_failings integer[], p_coalesce boolean[], p_keeps double precision[], p_options text[], p_use_keys text[],
    p_use_mosts integer[], p_use_pers bigint[], p_uses text[], p_paced boolean[], p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    fresh bigint[];
    known bigint[];
begin
    with noted as (
        insert into interlock.job_resubmitted as a (id, at)
        select u.id, interlock.micros(interlock.now_or(p_clock)) from unnest(p_ids) as u (id) order by u.id
        on conflict do nothing returning a.id
    )
    select coalesce(array_agg(noted.id), '{}') into fresh from noted;
    loop
        -- Also what a repetition before this one stored, though nothing may be left of it.
        known := array(
            select j.id from interlock.job j where j.id = any (p_ids)
            union
            select h.id from interlock.job_history h where h.id = any (p_ids)
            union
            select u.id from unnest(p_ids) as u (id) where u.id <> all (fresh));
        begin
            perform interlock.job_enqueue(
                p_namespace, p_ids, p_kinds, p_lanes, p_delays, p_ats, p_arguments, p_names, p_queues, p_priorities,
                p_failings, p_coalesce, p_keeps, p_options, p_use_keys, p_use_mosts, p_use_pers, p_uses, p_paced, known,
                p_clock);
            if exists (select from interlock.job_history h where h.id = any (p_ids) and h.id <> all (known)) then
                raise unique_violation;
            end if;
            return;
        exception when unique_violation then
            null;
        end;
    end loop;
end
$$;
