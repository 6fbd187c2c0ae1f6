insert into interlock_job_use (namespace, key, id, most, per)
select :namespace, :key, value, :most, :per from json_each(:ids)
