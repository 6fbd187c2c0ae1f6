insert into interlock_job_hold (lane, parked_reason, parked_since) values (:lane, :reason, :now)
on conflict (lane) do update set parked_reason = excluded.parked_reason, parked_since = excluded.parked_since
