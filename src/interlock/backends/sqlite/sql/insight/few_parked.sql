select id, kind from interlock_job where parked is not null limit :scan
