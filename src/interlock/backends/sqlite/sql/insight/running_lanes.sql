select distinct lane from interlock_job_claimed where lane > :after and lane < :beyond order by lane limit :limit
