-- List claims that are still kept, by key: a single one, or those whose key starts with a prefix. Walks the primary key
-- from the first candidate, or from the key after a given one, to the last candidate. Stable, so that one snapshot is
-- read.
create or replace function interlock.claim_list(
    p_namespace text, p_key text, p_prefix text, p_state text, p_limit integer, p_after text, p_clock double precision
) returns setof json
language plpgsql stable
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    shown integer := 0;
    candidates cursor for
        select k as claim from interlock.claim k
        where k.namespace = p_namespace and k.key >= coalesce(p_key, p_prefix) and k.key > p_after
        order by k.key;
    c interlock.claim;
begin
    for candidate in candidates loop
        c := candidate.claim;
        exit when shown >= p_limit or c.key <> p_key or not starts_with(c.key, p_prefix);
        if c.kept_until > now_is and c.state = coalesce(p_state, c.state) then
            shown := shown + 1;
            return next interlock.claim_view(c, now_is);
        end if;
    end loop;
end
$$;
