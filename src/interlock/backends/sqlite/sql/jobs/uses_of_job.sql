select uses from interlock_job where id = :id
