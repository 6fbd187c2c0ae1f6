select * from (
    select $2::text as key, l.most, l.per, f.most as first_most, f.per as first_per,
           greatest(0, coalesce(l.taken, 0) - coalesce((
               select sum(d.count) from interlock.job_slot_freed d where d.namespace = $1 and d.key = $2), 0)) as taken,
           (select count(*) from (
               select from interlock.job_limit_start s
               where s.namespace = $1 and s.key = $2 and s.counts_until > now_us limit 10000) x) as started,
           (select count(*) from (
               select from interlock.job_limit_wait w
               where w.key = $2 and w.namespace = $1 and not w.woken limit 10000) x) as waiting,
           l.wake_at, now_us
    from (select interlock.micros(interlock.now_or($3)) as now_us) clock
    left join interlock.job_limit l on l.namespace = $1 and l.key = $2
    left join lateral (
        select w.most, w.per from interlock.job_limit_wait w where w.key = $2 and w.namespace = $1 limit 1) f on true
) x
where x.taken > 0 or x.started > 0 or x.waiting > 0
