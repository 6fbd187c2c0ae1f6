-- Resume a queue. Returns false if it was not paused.
create or replace function interlock.queue_resume(
    p_namespace text, p_queue text, p_attribution jsonb, p_clock double precision
) returns boolean
language plpgsql volatile
as $$
declare
    paused constant text := p_namespace || '/' || p_queue;
    old interlock.queue_pause;
begin
    perform interlock.durably();
    delete from interlock.queue_pause q where q.pool = paused returning * into old;
    if not found then
        return false;
    end if;
    perform interlock.journal_add(
        p_namespace, interlock.micros(interlock.now_or(p_clock)), p_attribution, 'queue.resume', p_queue,
        interlock.journal_pause(old.paused_by, old.reason), interlock.journal_pause(null, null));
    perform interlock.job_notify(paused, -9223372036854775808);
    return true;
end
$$;
