select lane, position, sort, uses, half from interlock_job where id = :id
