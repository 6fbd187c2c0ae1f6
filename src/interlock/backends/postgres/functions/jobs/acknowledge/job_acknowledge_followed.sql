-- Acknowledge fetched jobs, some of which have follow-ups: jobs to accept in the same transaction. p_parents: the acknowledged
-- job that each of p_jobs follows; all of these parents are done. Follow-ups of a job whose fetch has ended before are left
-- out, whether its acknowledgement is refused or repeats an earlier one.
-- planner: lookups
create or replace function interlock.job_acknowledge_followed(
    p_namespace text, p_session text, acknowledged interlock.acknowledgements, p_max_crashes integer,
    p_clock double precision, p_jobs interlock.new_jobs, p_parents bigint[], out refused integer[], out ready bigint
)
language plpgsql volatile
set lock_timeout = '2s'
as $$
declare
    left_out bigint[];
begin
    perform interlock.durably();
    perform from interlock.job_fetched c where c.fence = any (acknowledged.fences) order by c.fence for update;
    left_out := array(
        select f.id from unnest(p_jobs.ids, p_parents) as f (id, parent)
        where not exists (
            select from unnest(acknowledged.ids, acknowledged.fences) as s (id, fence)
            join interlock.job_fetched c on c.fence = s.fence
            where s.id = f.parent and s.id = any (c.ids)));
    select a.refused, a.ready into refused, ready
    from interlock.job_acknowledge(p_namespace, p_session, acknowledged, p_max_crashes, p_clock) a;
    if cardinality(left_out) < cardinality(p_jobs.ids) then
        if p_jobs.keys is not null then
            -- Another transaction may be taking a key, for as long as it likes. The acknowledgement is repeated soon.
            perform set_config('lock_timeout', '200ms', true);
        end if;
        perform interlock.job_enqueue(p_namespace, p_jobs, left_out, p_clock, false);
    end if;
end
$$;
