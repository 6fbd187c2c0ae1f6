-- Whether suspects are ready that a session may take: of the half that it has, or of any if it has none.
select 1
from json_each(:kinds) e
cross join interlock_job_ready r on r.kind = e.value and r.care = 3
cross join interlock_job j on j.id = r.id
where :half is null or j.half = :half
limit 1
