-- For those who look: what ended when is told by the index alone.
drop index interlock_job_history_by_end;
create index interlock_job_history_by_end on interlock_job_history (kind, finished_at, state, enqueued_at);
