select kind, count(*), sum(placed) from interlock_job_later group by kind
