-- How many jobs that ended are kept, by how they ended, each counted up to a bound.
select 0::smallint, count(*) from (
    select from interlock.job_history h
    where h.state = 0 and h.pool >= $1 || '/' and h.pool < $1 || '0' limit $2::integer) x
union all
select s.state, x.count
from (values (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) s (state)
cross join lateral (
    select count(*) as count from (
        select from interlock.job_history h
        where h.state = s.state and h.state <> 0 and h.pool >= $1 || '/' and h.pool < $1 || '0' limit $2::integer) y) x
