insert into interlock_job_worker (namespace, session, host, pid, program)
values (:namespace, :session, :host, :pid, :program)
returning id
