with me as (
    select j.lane, j.position from interlock.job j
    where j.id = $2 and j.pool >= $1 || '/' and j.pool < $1 || '0' and j.position is not null and j.lane is not null
)
select array(select b.id from interlock.job b where b.lane = me.lane and b.position < me.position order by b.position desc limit $3),
       (select b.id from interlock.job b where b.lane = me.lane and b.position is not null order by b.position limit 1),
       array(select b.id from interlock.job b where b.lane = me.lane and b.position > me.position order by b.position limit $3)
from me
