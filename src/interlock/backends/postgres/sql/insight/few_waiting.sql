select coalesce(array_agg(x.id), '{}') from (
    select w.id
    from interlock.job_limit_wait w left join interlock.job j on $2 <> '' and j.id = w.id
    where w.namespace = $1 and not w.woken and w.id < $4 and ($2 = '' or j.name = $2) and ($3 = '' or w.pool = $1 || '/' || $3)
    limit $5) x
