delete from interlock_claim
where namespace = :namespace
  and key in (
      select c.key from interlock_claim c where c.namespace = :namespace and c.kept_until <= :now limit 1000)
