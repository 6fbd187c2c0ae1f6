insert into interlock_job_result (id, result, kept_until)
select j.id, :result, :now + j.keep_result from interlock_job j where j.id = :id and j.keep_result > 0
