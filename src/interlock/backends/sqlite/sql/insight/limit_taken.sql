select count(*), min(most), max(per)
from (select most, per from interlock_job_use where namespace = :namespace and key = :key limit :limit)
