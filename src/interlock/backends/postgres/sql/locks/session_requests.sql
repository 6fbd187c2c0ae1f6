select key, owner from interlock.lock where namespace = $1 and session = $2 and owner is not null
union all
select key, owner from interlock.waiter where namespace = $1 and session = $2
