-- An interval of so many seconds.
create or replace function interlock.seconds(p_seconds double precision) returns interval
language sql immutable
as $$ select make_interval(secs => p_seconds) $$;
