update interlock_event set kept_until = :until where id in (select value from json_each(:ids))
