-- The class of a ready job: 0 usual, 1 only for a worker that can start it now, 2 a suspect.
create or replace function interlock.job_class(p_half bigint, p_paced boolean) returns smallint
language sql immutable
as $$ select (case when p_half is not null then 2 when p_paced then 1 else 0 end)::smallint $$;
