select id from interlock_job_standing
where lane = :lane and kind in (select value from json_each(:kinds))
  and (:states = '[]' or state in (select value from json_each(:states)))
order by id desc
limit :limit
