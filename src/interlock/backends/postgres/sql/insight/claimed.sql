select o.id from interlock.job_claimed c cross join lateral unnest(c.ids) as o (id)
where c.session = $2 and c.namespace = $1 order by c.claimed_at, o.id limit $3
