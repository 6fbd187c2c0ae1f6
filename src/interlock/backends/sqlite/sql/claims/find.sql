select s.host, s.pid, s.program, c.key, c.state, c.attempt, c.fence, c.owner, c.session, c.host, c.pid, c.program, c.claimed_at,
       min(c.expires_at, coalesce(h.expires_at, c.claimed_at)), c.settled_at, c.retry_at, c.error, c.result,
       c.kept_until
from interlock_session s
left join interlock_claim c on c.namespace = s.namespace and c.key = :key and c.kept_until > :now
left join interlock_session h on h.namespace = c.namespace and h.id = c.session
where s.namespace = :namespace and s.id = :session and s.expires_at > :now
