-- Also the heads of lanes that fetchers do not know of yet.
select coalesce(array_agg(x.id), '{}') from (
    (select r.id from interlock.job_ready r
     where r.pool >= $1 || '/' and r.pool < $1 || '0' and r.id < $4 and ($2 = '' or r.name = $2)
       and ($3 = '' or r.pool = $1 || '/' || $3)
     limit $5)
    union
    (select h.id
     from (select distinct g.lane from (select x.lane from interlock.job_signal x where x.namespace = $1 limit $5) g) g
     cross join lateral (
         select j.* from interlock.job j where j.lane = g.lane and j.position is not null order by j.position limit 1) h
     where h.id < $4 and ($2 = '' or h.name = $2) and ($3 = '' or h.pool = $1 || '/' || $3)
       and interlock.job_state(h::interlock.job, $1) = 'ready')
) x
