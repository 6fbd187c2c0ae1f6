select key, ticket from interlock_job_wait where id = :id
