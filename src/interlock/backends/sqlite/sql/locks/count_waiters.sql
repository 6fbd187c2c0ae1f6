select count(*) from (select 1 from interlock_waiter where namespace = :namespace and key = :key limit :limit)
