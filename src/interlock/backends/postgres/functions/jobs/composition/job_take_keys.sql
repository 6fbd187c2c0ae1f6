-- Give each job with a key the key, unless another job holds it. Returns the holder of each job's key, which may be the job
-- itself; null without a key. Waits until another transaction that takes the same key commits or rolls back. Keys are taken
-- in their order, so that two calls never deadlock. fresh: jobs that did not hold their key before. p_strict: raise an error
-- if a holder has other arguments.
-- planner: lookups
create or replace function interlock.job_take_keys(
    p_namespace text, p_jobs interlock.new_jobs, p_now bigint, p_strict boolean, out holders bigint[], out fresh bigint[]
)
language plpgsql volatile
as $$
declare
    other record;
begin
    with wanted as materialized (
        select distinct on (k.name, k.key) k.name, k.key, s.id, (s.keep * 1e6)::bigint as keep
        from unnest(p_jobs.ids, p_jobs.kinds, p_jobs.keys, p_jobs.keep_keys) with ordinality as s (id, kind, key, keep, n)
        cross join lateral (select p_jobs.names[s.kind] collate "C" as name, s.key collate "C" as key) k
        where s.key is not null
        order by k.name, k.key, s.n
    ),
    taken as (
        -- The update changes nothing: it locks the row, which the statement that follows then sees as it is now.
        insert into interlock.job_key as k (namespace, name, key, id, keep, check_at)
        select p_namespace, w.name, w.key, w.id, w.keep, p_now + w.keep from wanted w
        order by w.name, w.key
        on conflict (namespace, name, key) do update set check_at = k.check_at
        returning k.id, k.xmax = 0 as is_new
    )
    select coalesce(array_agg(t.id) filter (where t.is_new), '{}') into fresh from taken t;
    -- Keys of jobs that ended long enough ago.
    with stale as materialized (
        select distinct on (k.name, k.key) k.ctid as tid, s.id, (s.keep * 1e6)::bigint as keep
        from unnest(p_jobs.ids, p_jobs.kinds, p_jobs.keys, p_jobs.keep_keys) with ordinality as s (id, kind, key, keep, n)
        cross join lateral (
            select k.ctid, k.name, k.key, k.id, k.keep from interlock.job_key k
            where k.namespace = p_namespace and k.name = p_jobs.names[s.kind] and k.key = s.key limit 1
        ) k
        where s.key is not null and k.id <> all (p_jobs.ids)
          and not exists (select from interlock.job j where j.id = k.id)
          and not exists (select from interlock.job_history h where h.id = k.id and h.finished_at + k.keep > p_now)
        order by k.name, k.key, s.n
    ),
    replaced as (
        update interlock.job_key k set id = s.id, keep = s.keep, check_at = p_now + s.keep
        from stale s where k.ctid = s.tid returning k.id
    )
    select fresh || coalesce(array_agg(r.id), '{}') into fresh from replaced r;
    holders := array(
        select k.id
        from unnest(p_jobs.kinds, p_jobs.keys) with ordinality as s (kind, key, n)
        left join lateral (
            select k.id from interlock.job_key k
            where k.namespace = p_namespace and k.name = p_jobs.names[s.kind] and k.key = s.key limit 1
        ) k on true
        order by s.n);
    if not p_strict then
        return;
    end if;
    select s.id, s.key, p_jobs.names[s.kind] as name, s.holder into other
    from unnest(p_jobs.ids, p_jobs.kinds, p_jobs.keys, p_jobs.arguments, holders) as s (id, kind, key, arguments, holder)
    left join interlock.job j on j.id = s.holder
    left join lateral (
        select h.arguments from interlock.job_history h where j.id is null and h.id = s.holder limit 1) h on true
    cross join lateral (
        select coalesce(j.arguments, h.arguments, p_jobs.arguments[array_position(p_jobs.ids, s.holder)]) as arguments) o
    where s.holder <> s.id and o.arguments <> s.arguments and o.arguments::jsonb <> s.arguments::jsonb
    limit 1;
    if found then
        raise exception 'key % of job % belongs to job %, which has other arguments', other.key, other.name, other.holder
            using errcode = 'IL003', hint = 'Use another key for other arguments.';
    end if;
end
$$;
