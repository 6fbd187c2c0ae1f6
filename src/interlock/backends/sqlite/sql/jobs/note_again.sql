insert into interlock_job_again (id, at) values (?, ?) on conflict (id) do nothing
