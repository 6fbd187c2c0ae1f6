-- A time as whole microseconds since 1970.
create or replace function interlock.micros(p_at timestamptz) returns bigint
language sql stable
as $$ select round(extract(epoch from p_at) * 1000000)::bigint $$;
