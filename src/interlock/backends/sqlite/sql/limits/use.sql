insert into interlock_limit_use (namespace, key, ticket, most, per) values (:namespace, :key, :ticket, :most, :per)
