select kind, count(*), sum(placed), min(at) from interlock_job_later group by kind
