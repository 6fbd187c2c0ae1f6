-- Queue for a key, unless the owner does already, or unless waiting would close a cycle. answer is waiting or deadlocked.
create or replace function interlock.lock_queue(
    p_namespace text, p_key text, p_owner text, p_caller text, p_session text, p_ttl double precision,
    p_wait double precision, p_nested boolean, p_now timestamptz, out answer text, out details jsonb
)
language plpgsql volatile
as $$
declare
    queued boolean;
begin
    queued := exists (select from interlock.waiter w where w.namespace = p_namespace and w.owner = p_owner);
    if not queued and p_nested then
        -- Callers that hold something add their waits to the graph one at a time: otherwise two halves of a cycle could
        -- miss each other.
        perform pg_advisory_xact_lock(1229870156, hashtext(p_namespace));
        details := interlock.lock_cycle(p_namespace, p_caller, p_key, p_now);
        if details is not null then
            answer := 'deadlocked';
            return;
        end if;
    end if;
    if not queued then
        perform interlock.durably();
        insert into interlock.waiter (namespace, key, owner, caller, session, ttl, asked_at, gives_up_at)
        values (p_namespace, p_key, p_owner, p_caller, p_session, p_ttl, p_now, p_now + interlock.seconds(p_wait));
    end if;
    answer := 'waiting';
end
$$;
