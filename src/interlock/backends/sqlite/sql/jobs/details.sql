select j.id, j.kind, j.lane, j.position, j.attempt, j.crashes, j.half, j.failing, j.attempts, j.refused_by, j.sort
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
