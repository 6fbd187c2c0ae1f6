select coalesce(array_agg(x.id), '{}') from (
    select j.id from interlock.job j
    where j.parked is not null and j.pool >= $1 || '/' and j.pool < $1 || '0' and j.id < $4 and ($2 = '' or j.name = $2)
      and ($3 = '' or j.pool = $1 || '/' || $3)
    limit $5) x
