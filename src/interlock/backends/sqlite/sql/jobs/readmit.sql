update interlock_job set refused = 0, parked = null where id in (select value from json_each(:ids))
