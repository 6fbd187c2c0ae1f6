-- The suspects of one half, and how many there are.
select j.id, count(*) over () from interlock_job j where j.half = :half order by j.id limit :limit
