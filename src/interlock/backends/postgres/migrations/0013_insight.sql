-- For those who look. Rows that are not held or parked are in none of these, so that they cost nothing.
create index job_by_parked on interlock.job (id) where parked is not null;
create index job_lane_by_hold on interlock.job_lane (lane) where held_since is not null or parked_since is not null;

-- History grows in the order of its ends, so that a few bytes for each stretch of it tell where to look.
create index job_history_by_end on interlock.job_history using brin (finished_at) with (pages_per_range = 32);
