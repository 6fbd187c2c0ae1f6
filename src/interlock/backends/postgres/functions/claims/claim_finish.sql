-- Finish a claim as done or failed, even late if it was not claimed again. answer is finished or refused; details is
-- then the refusal.
create or replace function interlock.claim_finish(
    p_namespace text, p_key text, p_owner text, p_state text, p_result text, p_error text,
    p_retry_in double precision, p_keep double precision, p_clock double precision,
    out answer text, out details json
)
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
begin
    perform interlock.durably();
    update interlock.claim c
    set state = p_state, expires_at = null, finished_at = now_is, retry_at = now_is + interlock.seconds(p_retry_in),
        error = p_error, result = p_result,
        kept_until = now_is + interlock.seconds(coalesce(p_retry_in, 0) + p_keep)
    where c.namespace = p_namespace and c.key = p_key and c.owner = p_owner and c.state = 'in progress'
      and c.kept_until > now_is;
    if not found then
        perform from interlock.claim c
        where c.namespace = p_namespace and c.key = p_key and c.owner = p_owner and c.state = p_state
          and c.kept_until > now_is;
    end if;
    answer := case when found then 'finished' else 'refused' end;
    if answer = 'refused' then
        details := interlock.claim_refusal(p_namespace, p_key, p_owner, now_is);
    end if;
end
$$;
