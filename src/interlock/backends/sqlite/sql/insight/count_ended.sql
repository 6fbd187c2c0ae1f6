select count(*) from (
    select 1 from interlock_job_history where state = :state and state <> 'done'
      and (:all or kind in (select value from json_each(:kinds))) limit :limit)
