insert into interlock_job_kind (namespace, queue, name) values (:namespace, :queue, :name) returning id
