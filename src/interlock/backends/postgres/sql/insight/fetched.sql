select o.id from interlock.job_fetched c cross join lateral unnest(c.ids) as o (id)
where c.session = $2 and c.namespace = $1 order by c.fetched_at, o.id limit $3
