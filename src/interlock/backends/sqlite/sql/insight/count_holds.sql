select count(held_since), count(*) - count(held_since)
from (select held_since from interlock_job_hold where lane > :first and lane < :beyond limit :limit)
