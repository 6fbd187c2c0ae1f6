-- When a session expires; null if there is none.
create or replace function interlock.session_expiry(p_namespace text, p_session text) returns timestamptz
language sql stable
as $$ select expires_at from interlock.session where namespace = p_namespace and id = p_session $$;
