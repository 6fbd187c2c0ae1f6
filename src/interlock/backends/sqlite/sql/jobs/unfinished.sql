select j.id
from json_each(:ids) e
cross join interlock_job j on j.id = e.value
cross join interlock_job_kind k on k.id = j.kind and k.namespace = :namespace
