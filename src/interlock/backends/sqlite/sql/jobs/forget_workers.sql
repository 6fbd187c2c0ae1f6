delete from interlock_job_worker
where namespace = :namespace and ended_at <= :before
  and not exists (select 1 from interlock_job_claimed c where c.worker = interlock_job_worker.id)
