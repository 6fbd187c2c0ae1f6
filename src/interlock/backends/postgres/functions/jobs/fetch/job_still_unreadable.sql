-- After the fetch: set unreadable jobs aside again that were made ready for it and not taken.
create or replace function interlock.job_still_unreadable(p_namespace text, p_ids bigint[], p_taken bigint[]) returns boolean
language plpgsql volatile
as $$
declare
    left_over bigint[] := array(select u.id from unnest(p_ids) as u (id) where u.id <> all (p_taken));
begin
    if left_over <> '{}' then
        perform interlock.job_detach(p_namespace, j) from interlock.job j where j.id = any (left_over);
        update interlock.job j set unreadable = true, apart = j.lane is not null where j.id = any (left_over);
    end if;
    return true;
end
$$;
