-- Remove a key's reservations whose sessions have ended. If that makes room, the room dates from the death that made
-- it, or from the last one if the deaths also changed the number of slots. The caller has locked the key. Reservations
-- of dead sessions never become live again, so their other keys do not matter.
create or replace function interlock.limit_drop_dead_holders(p_namespace text, p_key text, p_now timestamptz) returns void
language plpgsql volatile
as $$
declare
    was record;
    remains record;
    before bigint;
    after bigint;
begin
    select min(u.max_count) filter (where u.per = 0) as slots, count(*) filter (where u.started) as started,
           coalesce(bool_or(u.waiting), false) as awaited, max(u.ends_at) filter (where u.dead) as last_death,
           array_agg(u.ends_at order by u.ends_at nulls first) filter (where u.dead and u.started) as deaths
    into was from interlock.limit_uses(p_namespace, p_key, p_now, 0) u;
    before := interlock.limit_free(p_namespace, p_key, p_now, null);
    delete from interlock.limit_use u
    where u.namespace = p_namespace and u.key = p_key
      and not exists (
          select from interlock.session s
          where s.namespace = u.namespace and s.id = u.session and s.expires_at > p_now);
    perform interlock.limit_wake_jobs(p_namespace, array[p_key]);
    after := interlock.limit_free(p_namespace, p_key, p_now, null);
    if was.awaited and before <= 0 and after > 0 then
        select min(u.max_count) filter (where u.per = 0) as slots, count(*) filter (where u.started) as started
        into remains from interlock.limit_use u where u.namespace = p_namespace and u.key = p_key;
        update interlock.job_limit k
        set free_since = interlock.micros(coalesce(
            case when after - before = was.started - remains.started then was.deaths[1 - before] else was.last_death end,
            'epoch'))
        where k.namespace = p_namespace and k.key = p_key;
    end if;
end
$$;
