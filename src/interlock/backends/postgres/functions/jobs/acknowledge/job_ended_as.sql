-- The state in which a job ends whose attempt had this outcome, or null if it goes on. p_quarantine: whether one more crash
-- of its own quarantines it.
create or replace function interlock.job_ended_as(p_outcome smallint, p_cancelled boolean, p_quarantine boolean)
returns smallint
language sql immutable
as $$
    select case when p_outcome = interlock.outcome_done() then interlock.state_done()
                when p_cancelled then interlock.state_cancelled()
                when p_outcome = interlock.outcome_failed() then interlock.state_failed()
                when p_outcome = interlock.outcome_discarded() then interlock.state_discarded()
                when p_outcome = interlock.outcome_cancelled() then interlock.state_cancelled()
                when p_outcome = interlock.outcome_crashed_alone() and p_quarantine then interlock.state_quarantined() end
$$;
