select count(*) from (
    select 1 from interlock_job_history indexed by interlock_job_history_by_end
    where kind = :kind and state = 'done' limit :limit)
