-- The same where there is but one namespace: the index tells.
select 0::smallint, count(*) from (select from interlock.job_history h where h.state = 0 limit $1::integer) x
union all
select s.state, x.count
from (values (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) s (state)
cross join lateral (
    select count(*) as count from (
        select from interlock.job_history h where h.state = s.state and h.state <> 0 limit $1::integer) y) x
