delete from interlock_job_ready
where (kind, care, sort, id) in (
    select j.kind, j.care, j.sort, j.id from json_each(:ids) e cross join interlock_job j on j.id = e.value)
