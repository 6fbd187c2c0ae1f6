select count(distinct lane) from (select lane from interlock_job_claimed where lane > :first and lane < :beyond limit :limit)
