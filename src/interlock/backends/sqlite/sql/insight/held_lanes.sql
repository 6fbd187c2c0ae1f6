select lane, held_since is not null from interlock_job_hold where lane > :after and lane < :beyond order by lane limit :scan
