-- Pause a queue: no job of it is fetched from the moment this commits. Sessions that have fetched jobs of it are notified.
create or replace function interlock.queue_pause(
    p_namespace text, p_queue text, p_attribution jsonb, p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    now_us bigint := interlock.micros(interlock.now_or(p_clock));
    paused constant text := p_namespace || '/' || p_queue;
    actor constant text := p_attribution ->> 0;
    because constant text := p_attribution ->> 1;
    old interlock.queue_pause;
begin
    perform interlock.durably();
    insert into interlock.queue_pause (namespace, pool, paused_since, paused_by, reason)
    values (p_namespace, paused, now_us, '', '') on conflict (pool) do nothing;
    select * into old from interlock.queue_pause q where q.pool = paused for update;
    if (old.paused_by, old.reason) = (actor, because) then
        return;
    end if;
    update interlock.queue_pause q set paused_by = actor, reason = because where q.pool = paused;
    perform interlock.journal_add(
        p_namespace, now_us, p_attribution, 'queue.pause', p_queue,
        interlock.journal_pause(nullif(old.paused_by, ''), case when old.paused_by <> '' then old.reason end),
        interlock.journal_pause(actor, because));
    -- A fetch locks its session's row before it looks for pauses: those that did so before this have to end, and those
    -- that do so later see the pause. The first fetch of a session, whose row is not visible yet, locks the namespace's.
    insert into interlock.job_namespace values (p_namespace) on conflict do nothing;
    perform from interlock.job_namespace n where n.namespace = p_namespace for update;
    perform from interlock.job_session c
    where c.namespace = p_namespace and c.seen_at > now_us - 7200000000 order by c.id for no key update;
    perform interlock.job_interrupt(
        p_namespace, c.session, o.id, c.fence, 'paused ' || p_queue || ' by ' || actor || ': ' || because, now_us)
    from interlock.job_fetched c
    cross join lateral (
        select u.id from unnest(c.ids) as u (id) join interlock.job j on j.id = u.id where j.pool = paused limit 1) o
    where c.namespace = p_namespace;
end
$$;
