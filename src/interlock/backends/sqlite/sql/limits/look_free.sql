select key, free_since from interlock_limit_key
where namespace = :namespace and key in (select value from json_each(:keys))
