select coalesce(array_agg(x.id), '{}') from (
    select o.id
    from interlock.job_fetched c
    cross join lateral unnest(c.ids) as o (id)
    left join interlock.job j on ($2 <> '' or $3 <> '') and j.id = o.id
    where c.namespace = $1 and o.id < $4 and ($2 = '' or j.name = $2) and ($3 = '' or j.pool = $1 || '/' || $3)
    limit $5) x
