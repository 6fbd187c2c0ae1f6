select value from json_each(:owners)
where value not in (select owner from interlock_waiter where namespace = :namespace and session = :session)
