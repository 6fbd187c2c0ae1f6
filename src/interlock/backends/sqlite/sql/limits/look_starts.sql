select key, owner, party, session, host, pid, program, most, per, asked_at, at
from interlock_limit_start
where namespace = :namespace and key in (select value from json_each(:keys)) and at + per > :now_us
order by key, at, ticket
