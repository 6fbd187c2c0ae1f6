-- The name of the state of a job that has ended.
create or replace function interlock.job_ended_state(p_state smallint) returns text
language sql immutable
as $$ select (array['done', 'failed', 'discarded', 'cancelled', 'superseded', 'quarantined', 'expired'])[p_state + 1] $$;
