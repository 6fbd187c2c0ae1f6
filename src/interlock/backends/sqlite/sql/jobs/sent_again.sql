-- Which of some jobs were sent again.
select a.id
from json_each(:ids) e
cross join interlock_job_again a on a.id = e.value
