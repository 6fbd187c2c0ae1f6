-- How many more jobs with these figures may be fetched under a key, by its slots and its rates, and when the next one
-- may if a rate has no room. The caller has locked the key. Fetched jobs count with their own figures.
create or replace function interlock.job_limit_room(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_now bigint, out room integer, out fit_at bigint
)
language plpgsql volatile
as $$
declare
    k interlock.job_limit;
    figure record;
    starts bigint;
    at_last bigint;
begin
    select * into k from interlock.job_limit l where l.namespace = p_namespace and l.key = p_key;
    room := 1000000000;
    for figure in
        select p_most as max_count, p_per as per
        union
        select k.max_count, k.per where k.taken > 0 and k.figures is null
        union
        select split_part(f, '/', 1)::integer, split_part(f, '/', 2)::bigint from jsonb_object_keys(k.figures) f
    loop
        if figure.per = 0 then
            room := least(room, figure.max_count - k.taken);
            continue;
        end if;
        select count(*) into starts from (
            select from interlock.job_limit_start s
            where s.namespace = p_namespace and s.key = p_key and s.at > p_now - figure.per limit figure.max_count) s;
        room := least(room, figure.max_count - starts);
        if starts >= figure.max_count then
            select s.at into at_last from interlock.job_limit_start s
            where s.namespace = p_namespace and s.key = p_key order by s.at desc offset figure.max_count - 1 limit 1;
            fit_at := greatest(fit_at, at_last + figure.per);
        end if;
    end loop;
end
$$;
