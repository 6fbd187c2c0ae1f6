select coalesce(array_agg(x.id), '{}') from (
    select l.id from interlock.job_scheduled l
    where l.pool >= $1 || '/' and l.pool < $1 || '0' and l.id < $4 and ($2 = '' or l.name = $2)
      and ($3 = '' or l.pool = $1 || '/' || $3)
    limit $5) x
