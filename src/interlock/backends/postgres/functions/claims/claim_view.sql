-- A claim as the library reads it.
create or replace function interlock.claim_view(c interlock.claim, p_now timestamptz) returns json
language sql stable
as $$
    select json_build_object(
        'key', c.key, 'state', c.state, 'attempt', c.attempt, 'fence', c.fence, 'owner', c.owner, 'session', c.session,
        'host', c.host, 'pid', c.pid, 'program', c.program,
        'claimed_at', extract(epoch from c.claimed_at)::float8,
        'expires_at', extract(epoch from interlock.claim_ends_at(c))::float8,
        'finished_at', extract(epoch from c.finished_at)::float8,
        'retry_at', extract(epoch from c.retry_at)::float8,
        'error', c.error, 'result', c.result,
        'kept_until', extract(epoch from c.kept_until)::float8,
        'seen_at', extract(epoch from p_now)::float8)
$$;
