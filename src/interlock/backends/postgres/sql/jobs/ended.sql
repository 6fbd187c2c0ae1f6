delete from interlock.job_watch where session = $2 and namespace = $1 and ended returning id
