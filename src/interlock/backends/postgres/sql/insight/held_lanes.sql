select l.lane, l.held_since is not null, l.parked_since is not null from interlock.job_lane l
where (l.held_since is not null or l.parked_since is not null) and l.lane > $2 and l.lane < $1 || '0'
order by l.lane limit $3
