-- For those who look. Rows that are not held or parked are in none of these, so that they cost nothing.
create index job_by_parked on interlock.job (id) where parked is not null;
create index job_lane_by_hold on interlock.job_lane (lane) where held_since is not null or parked_since is not null;
