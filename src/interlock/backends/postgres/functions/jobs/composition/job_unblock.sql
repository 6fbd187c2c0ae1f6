-- Let jobs that waited for others take their positions and become ready, or scheduled if they are due later. signalled: the
-- lanes of those that have one. pools, sorts: where jobs became ready.
-- planner: lookups
create or replace function interlock.job_unblock(
    p_namespace text, p_ids bigint[], p_now bigint, out signalled text[], out pools text[], out sorts bigint[]
)
language plpgsql volatile
as $$
declare
    laned bigint[];
    plain bigint[];
    made record;
begin
    with due as (
        update interlock.job j set due_at = greatest(j.due_at, p_now), parked = null
        from unnest(p_ids) as u (id) where j.id = u.id returning j.*
    ),
    later as (
        insert into interlock.job_scheduled (pool, at, id, use_max_count, priority, class, limited, name, lane, use_key)
        select d.pool, d.due_at, d.id, case when d.use_per = 0 then d.use_max_count end, d.priority,
               interlock.job_class(d.half, d.paced), d.use_key is not null or d.uses is not null, d.name, d.lane,
               case when d.use_per = 0 then d.use_key end
        from due d where d.due_at > p_now
    )
    select array_agg(d.id order by d.id) filter (where d.lane is not null and d.due_at <= p_now),
           array_agg(d.id order by d.id) filter (where d.lane is null and d.due_at <= p_now),
           array_agg(distinct d.pool) filter (where d.lane is not null or d.due_at > p_now)
    into laned, plain, pools
    from due d;
    sorts := array_fill(9223372036854775807, array[coalesce(cardinality(pools), 0)]);
    if laned is not null then
        signalled := interlock.job_assign_positions(p_namespace, laned);
    end if;
    if plain is not null then
        made := interlock.job_make_ready(p_namespace, plain);
        pools := pools || made.pools;
        sorts := sorts || made.sorts;
    end if;
end
$$;
