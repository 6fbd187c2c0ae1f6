insert into interlock_job_wake (namespace, key, at) values (:namespace, :key, :at)
on conflict (namespace, key) do update set at = excluded.at
