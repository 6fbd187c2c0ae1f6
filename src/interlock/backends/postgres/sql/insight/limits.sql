-- Limits that jobs hold, wait for or have lately started under, by key.
with recursive clock as materialized (select interlock.micros(interlock.now_or($4)) as now_us),
waited (key, n) as (
    (select w.key, 1 from interlock.job_limit_wait w where w.namespace = $1 and w.key > $2 order by w.key limit 1)
    union all
    select (select w.key from interlock.job_limit_wait w where w.namespace = $1 and w.key > x.key order by w.key limit 1), x.n + 1
    from waited x where x.key is not null and x.n < $3
),
keys as materialized (
    select known.key from (
        (select l.key from interlock.job_limit l cross join clock
         where l.namespace = $1 and l.key > $2
           and (l.taken > 0 or exists (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = l.key and s.counts_until > now_us))
         order by l.key limit $3)
        union
        select x.key from waited x where x.key is not null
    ) known
)
select * from (
    select k.key, l.most, l.per, f.most as first_most, f.per as first_per,
           greatest(0, coalesce(l.taken, 0) - coalesce((
               select sum(d.count) from interlock.job_slot_freed d where d.namespace = $1 and d.key = k.key), 0)) as taken,
           (select count(*) from (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = k.key and s.counts_until > now_us limit 10000) x) as started,
           (select count(*) from (
               select from interlock.job_limit_wait w
               where w.key = k.key and w.namespace = $1 and not w.woken limit 10000) x) as waiting,
           l.wake_at, now_us
    from keys k
    cross join clock
    left join interlock.job_limit l on l.namespace = $1 and l.key = k.key
    left join lateral (
        select w.most, w.per from interlock.job_limit_wait w where w.key = k.key and w.namespace = $1 limit 1) f on true
) x
where x.taken > 0 or x.started > 0 or x.waiting > 0
order by x.key
limit $3
