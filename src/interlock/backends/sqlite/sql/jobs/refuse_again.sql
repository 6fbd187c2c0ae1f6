update interlock_job set refused = 1
where id in (select value from json_each(:ids))
  and not exists (select 1 from interlock_job_claimed c where c.id = interlock_job.id)
returning id
