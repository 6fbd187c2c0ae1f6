-- Lock keys of limits that are not locked yet, and create rows for new ones: in order, or if some are locked already,
-- only those that no other transaction has locked. New keys are created by one fetch at a time: a transaction that
-- waited for another's new key while it holds locks could deadlock. Returns the keys that are locked now.
create or replace function interlock.job_limit_lock(p_namespace text, p_keys text[], p_locked text[]) returns text[]
language plpgsql volatile
as $$
declare
    missing text[] := array(
        select x.key from (
            select u.key from unnest(p_keys) as u (key) except select u.key from unnest(p_locked) as u (key)
        ) x order by x.key collate "C");
begin
    if missing = '{}' then
        return p_locked;
    end if;
    -- Each key is looked up by itself. A join could read every key of the namespace instead: the plan is made while
    -- there are few of them, and is cached.
    if exists (
        select from unnest(missing) as u (key)
        left join lateral (
            select true as known from interlock.job_limit l where l.namespace = p_namespace and l.key = u.key limit 1
        ) l on true
        where l.known is null)
    then
        if p_locked = '{}' then
            perform pg_advisory_xact_lock(1229870159, hashtext(p_namespace));
        end if;
        if pg_try_advisory_xact_lock(1229870159, hashtext(p_namespace)) then
            insert into interlock.job_limit (namespace, key, override_count, override_per)
            select p_namespace, u.key, o.max_count, o.per from unnest(missing) as u (key)
            left join lateral interlock.limit_override_of(p_namespace, u.key) o on true
            on conflict do nothing;
        end if;
    end if;
    if p_locked = '{}' then
        return array(
            select l.key from unnest(missing) with ordinality as u (key, n)
            cross join lateral (
                select l.key from interlock.job_limit l
                where l.namespace = p_namespace and l.key = u.key limit 1 for update
            ) l order by u.n);
    end if;
    return p_locked || array(
        select l.key from unnest(missing) as u (key)
        cross join lateral (
            select l.key from interlock.job_limit l
            where l.namespace = p_namespace and l.key = u.key limit 1 for update skip locked
        ) l);
end
$$;
