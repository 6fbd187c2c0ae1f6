-- What the claimed jobs on a key know of it, and how many they are.
select most, per, count(*) from interlock_job_use where namespace = :namespace and key = :key group by most, per
