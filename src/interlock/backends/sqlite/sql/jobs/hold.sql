insert into interlock_job_hold (lane, held_by, held_reason, held_since) values (:lane, :by, :reason, :now)
on conflict (lane) do update
set held_by = excluded.held_by, held_reason = excluded.held_reason, held_since = excluded.held_since
