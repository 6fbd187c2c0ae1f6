-- What ended since a time, by when it ended and when it was accepted. The index has all of it.
select finished_at / :width, enqueued_at / :width, sum(state = 'done'), sum(state in ('failed', 'quarantined')), count(*)
from interlock_job_history indexed by interlock_job_history_by_end
where kind = :kind and finished_at >= :since
group by 1, 2
