-- The class of a ready job: suspects and paced jobs are given only to workers that can start them now.
create or replace function interlock.job_class(p_half bigint, p_paced boolean) returns smallint
language sql immutable
as $$
    select case when p_half is not null then interlock.class_suspect()
                when p_paced then interlock.class_immediate()
                else interlock.class_usual() end
$$;
