-- Keep the acknowledgements at these positions: those whose fetch had not ended.
-- planner: caller
create or replace function interlock.job_acknowledge_matched(
    acknowledged interlock.acknowledgements, p_matched integer[]
) returns interlock.acknowledgements
language sql stable
as $$
    select row(array_agg(u.id), array_agg(u.fence), array_agg(u.outcome), array_agg(u.ran), array_agg(u.delay),
               array_agg(u.result), array_agg(u.error), array_agg(u.trace), array_agg(u.half))::interlock.acknowledgements
    from (
        select u.*
        from unnest(acknowledged.ids, acknowledged.fences,
                    coalesce(acknowledged.outcomes, array_fill(interlock.outcome_done(), array[cardinality(acknowledged.ids)])),
                    acknowledged.ran, acknowledged.delays, acknowledged.results, acknowledged.errors, acknowledged.traces,
                    acknowledged.halves)
             with ordinality as u (id, fence, outcome, ran, delay, result, error, trace, half, n)
        where u.n = any (p_matched) order by u.n
    ) u
$$;
