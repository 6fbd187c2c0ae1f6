select lane, position, sort, id from interlock_job where id = :id
