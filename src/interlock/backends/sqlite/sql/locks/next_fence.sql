insert into interlock_fence (namespace, last) values (:namespace, 1)
on conflict (namespace) do update set last = last + 1
returning last
