insert or replace into interlock_claim (
    namespace, key, state, attempt, fence, owner, session, host, pid, program, claimed_at, expires_at, keep, kept_until)
values (
    :namespace, :key, 'in progress', :attempt, :fence, :owner, :session, :host, :pid, :program, :now, :now + :lease,
    :keep, :now + :lease + :keep)
