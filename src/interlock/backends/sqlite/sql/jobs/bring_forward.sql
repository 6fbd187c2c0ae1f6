delete from interlock_job_later
where (kind, at, id) in (
    select j.kind, j.due_at, j.id from json_each(:ids) e cross join interlock_job j on j.id = e.value)
