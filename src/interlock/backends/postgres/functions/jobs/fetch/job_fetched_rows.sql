-- The jobs of a fetch as the library reads them, in the order given.
-- planner: lookups
create or replace function interlock.job_fetched_rows(p_namespace text, p_ids bigint[], p_fences bigint[])
returns table (
    id bigint, name text, queue text, lane text, fence bigint, attempt integer, crashes smallint, half bigint,
    priority smallint, enqueued_at double precision, due_at double precision, arguments text, options text, slots text[],
    paced boolean, cause text, expires_at bigint
)
language plpgsql volatile
as $$
begin
    return query
        select j.id, j.name, substr(j.pool, length(p_namespace) + 2), coalesce(substr(j.lane, length(p_namespace) + 2), ''),
               u.fence, j.attempt + 1, j.crashes, j.half, j.priority, j.enqueued_at / 1e6::float8,
               j.due_at / 1e6::float8, j.arguments, j.options,
               case when j.use_per = 0 then array[j.use_key]
                    when j.uses is not null then array(
                        select q.key from interlock.job_uses(null, null, null, j.uses) q where q.per = 0) end,
               j.paced, j.cause, j.expires_at
        from unnest(p_ids, p_fences) as u (id, fence)
        join interlock.job j on j.id = u.id;
end
$$;
