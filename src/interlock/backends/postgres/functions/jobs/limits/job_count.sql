-- Change the number of fetched jobs that hold a key with these figures. The caller has locked the key.
create or replace function interlock.job_count(p_namespace text, p_key text, p_most integer, p_per bigint, p_change integer)
returns void
language plpgsql volatile
as $$
declare
    k interlock.job_limit;
    figure text := p_most || '/' || p_per;
    known jsonb;
    number integer;
begin
    update interlock.job_limit l
    set taken = l.taken + p_change, max_count = p_most, per = p_per
    where l.namespace = p_namespace and l.key = p_key and l.figures is null
      and (l.taken = 0 or (l.max_count, l.per) = (p_most, p_per));
    if found then
        return;
    end if;
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    known := coalesce(k.figures, jsonb_build_object(k.max_count || '/' || k.per, k.taken));
    number := coalesce((known ->> figure)::integer, 0) + p_change;
    known := case when number = 0 then known - figure else known || jsonb_build_object(figure, number) end;
    update interlock.job_limit l
    set taken = l.taken + p_change,
        figures = case when (select count(*) from jsonb_object_keys(known)) > 1 then known end,
        max_count = (select min(split_part(f, '/', 1)::integer) from jsonb_object_keys(known) f),
        per = (select min(split_part(f, '/', 2)::bigint) from jsonb_object_keys(known) f)
    where l.namespace = p_namespace and l.key = p_key;
end
$$;
