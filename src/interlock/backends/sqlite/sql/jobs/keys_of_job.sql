select lane, position, sort, uses from interlock_job where id = :id
