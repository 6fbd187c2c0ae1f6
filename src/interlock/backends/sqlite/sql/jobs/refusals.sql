-- Which sets of versions refused jobs of a kind.
with recursive sets (refused_by) as (
    select min(refused_by) from interlock_job where refused and kind = :kind
    union all
    select (select min(j.refused_by) from interlock_job j where j.refused and j.kind = :kind and j.refused_by > sets.refused_by)
    from sets
    where sets.refused_by is not null
)
select refused_by from sets where refused_by is not null
