-- When the next unfinished jobs by number were accepted, by spans.
select enqueued_at / :width, count(*), min(id), sum(kind in (select value from json_each(:kinds)))
from (select id, kind, enqueued_at from interlock_job where id < :before order by id desc limit :scan)
group by 1
