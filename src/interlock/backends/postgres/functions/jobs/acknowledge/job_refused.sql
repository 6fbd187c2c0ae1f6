-- The positions of acknowledgements without a fetch that were not made before with the same outcome.
create or replace function interlock.job_refused(p_ids bigint[], p_fences bigint[], p_outcomes smallint[], p_matched integer[])
returns integer[]
language sql stable
as $$
    select array_agg(u.n)
    from unnest(p_ids, p_fences, p_outcomes) with ordinality as u (id, fence, outcome, n)
    where u.n <> all (p_matched)
      and not exists (
          select from interlock.job j
          where j.id = u.id and j.fence = u.fence and j.last_outcome = coalesce(u.outcome, interlock.outcome_done()))
      and not exists (
          select from interlock.job_history h
          where h.id = u.id and h.fence = u.fence and h.last_outcome = coalesce(u.outcome, interlock.outcome_done()))
$$;
