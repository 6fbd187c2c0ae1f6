-- A cross join is done in the order that it is written in: each name is looked up in the index.
select e.delivery, e.source, e.id
from json_each(:names) n
cross join interlock_event e
where e.namespace = :namespace
    and e.delivery = json_extract(n.value, '$[0]')
    and e.source = json_extract(n.value, '$[1]')
