delete from interlock_event where id in (select value from json_each(:ids))
