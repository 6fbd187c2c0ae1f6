select c.key, c.state, c.attempt, c.fence, c.owner, c.session, c.host, c.pid, c.program, c.claimed_at,
       min(c.expires_at, coalesce(h.expires_at, c.claimed_at)), c.settled_at, c.retry_at, c.error, c.result,
       c.kept_until
from interlock_claim c
left join interlock_session h on h.namespace = c.namespace and h.id = c.session
where c.namespace = :namespace and c.key >= :start
order by c.key
