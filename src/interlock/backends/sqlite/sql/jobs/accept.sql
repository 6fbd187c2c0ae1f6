insert into interlock_job
    (id, kind, lane, position, priority, enqueued_at, due_at, failing, "coalesce", keep_result, limits, uses, options,
     arguments)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
