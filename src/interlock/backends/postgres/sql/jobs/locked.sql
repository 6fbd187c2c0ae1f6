-- Of jobs under these fences, those with a row that another transaction has locked: the job's place in the arrays, which
-- row, and who has locked it. A row's xmax is the transaction that locked it last; one that still runs holds a lock on
-- its own number.
with asked as materialized (
    select u.n, u.id, u.fence, j.lane, j.xmax as job_xmax
    from unnest($1::bigint[], $2::bigint[]) with ordinality as u (id, fence, n)
    left join interlock.job j on j.id = u.id
),
held as materialized (
    select a.n, 1 as rank, 'lane ' || substr(a.lane, strpos(a.lane, '/') + 1) as what, l.xmax as by
    from asked a join interlock.job_lane l on l.lane = a.lane
    union all
    select a.n, 2, 'job ' || a.id, a.job_xmax from asked a where a.job_xmax is not null
    union all
    select a.n, 3, 'fetch ' || a.fence, c.xmax from asked a join interlock.job_fetched c on c.fence = a.fence
)
select distinct on (h.n) h.n::integer, h.what, k.pid, coalesce(s.application_name, ''), coalesce(s.state, ''),
       extract(epoch from clock_timestamp() - s.xact_start)::float8
from held h
join pg_catalog.pg_locks k
  on k.locktype = 'transactionid' and k.transactionid = h.by and k.granted and k.mode = 'ExclusiveLock'
left join pg_catalog.pg_stat_activity s on s.pid = k.pid
where k.pid <> pg_backend_pid()
order by h.n, h.rank
