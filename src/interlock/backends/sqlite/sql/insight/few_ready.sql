select id, kind from interlock_job_ready where kind in (select value from json_each(:kinds)) limit :scan
