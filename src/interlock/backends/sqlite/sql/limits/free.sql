insert into interlock_limit_key (namespace, key, free_since) values (:namespace, :key, :at)
on conflict (namespace, key) do update set free_since = :at
