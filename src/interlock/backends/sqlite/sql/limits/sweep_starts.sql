delete from interlock_limit_start
where (namespace, key, at, ticket) in (
    select namespace, key, at, ticket from interlock_limit_start
    where namespace = :namespace and counts_until <= :now_us
    limit 1000)
