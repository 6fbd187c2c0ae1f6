-- Remove waiters of a key whose time is over or whose session has ended. The caller has locked the key.
create or replace function interlock.lock_drop_dead_waiters(p_namespace text, p_key text, p_now timestamptz) returns void
language sql volatile
as $$
    delete from interlock.waiter w
    where w.namespace = p_namespace and w.key = p_key
      and (w.gives_up_at <= p_now
           or not exists (
               select from interlock.session s
               where s.namespace = w.namespace and s.id = w.session and s.expires_at > p_now))
$$;
