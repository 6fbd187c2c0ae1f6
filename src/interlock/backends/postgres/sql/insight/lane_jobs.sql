select j.id from interlock.job j where j.lane = $1 || '/' || $2 and j.position is not null order by j.position limit $3
