select count(*) >= $2 from (select from interlock.job_signal s where s.namespace = $1 limit $2) x
