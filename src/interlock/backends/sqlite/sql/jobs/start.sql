insert into interlock_limit_start
    (namespace, key, at, ticket, counts_until, owner, party, session, host, pid, program, most, per, asked_at)
values (:namespace, :key, :now, :ticket, :counts_until, :owner, :party, :session, :host, :pid, :program, :most, :per,
        :asked_at)
