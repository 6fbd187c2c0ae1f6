-- A job whose claim ended before its end.
update interlock_job
set attempt = :attempt, crashes = :crashes, half = :half, fence = :fence, due_at = coalesce(:due_at, due_at), position = :position,
    parked = :parked, refused = :refused, refused_by = :refused_by, error = coalesce(:error, error), attempts = coalesce(:attempts, attempts)
where id = :id
