-- Jobs that ended in one way other than being done.
select id, kind from interlock_job_history
where state = :state and state <> 'done' and id < :before
order by id desc
limit :scan
