-- Which of some jobs stand in one of these ways.
select j.id from interlock.job j
where j.id = any ($2::bigint[]) and interlock.job_state(j, $1) = any ($3::text[]) order by j.id desc
