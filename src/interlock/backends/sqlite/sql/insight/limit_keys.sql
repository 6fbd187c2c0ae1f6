-- The next keys that jobs hold, wait for or have lately started under. Each step finds one, however many jobs it has.
with recursive known (key) as (
    select (select min(key) from (
        select (select min(key) from interlock_job_use where namespace = :namespace and key > :after) as key
        union all select (select min(key) from interlock_job_wait where namespace = :namespace and key > :after)
        union all select (select min(key) from interlock_job_start where namespace = :namespace and key > :after)))
    union all
    select (select min(key) from (
        select (select min(key) from interlock_job_use where namespace = :namespace and key > known.key) as key
        union all select (select min(key) from interlock_job_wait where namespace = :namespace and key > known.key)
        union all select (select min(key) from interlock_job_start where namespace = :namespace and key > known.key)))
    from known
    where known.key is not null
)
select key from known where key is not null limit :scan
