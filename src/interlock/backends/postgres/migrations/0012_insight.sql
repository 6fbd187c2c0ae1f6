-- For those who look. Rows that are not held or parked are in none of these, so that they cost nothing.
create index job_by_parked on interlock.job (id) where parked is not null;
create index job_lane_by_hold on interlock.job_lane (lane) where held_since is not null or parked_since is not null;

-- History grows in the order of its ends, so that a few bytes for each stretch of it tell where to look.
create index job_history_by_end on interlock.job_history using brin (finished_at) with (pages_per_range = 32);

-- As claim_look, beginning after a key.
create function interlock.claim_look_after(
    p_namespace text, p_prefix text, p_state text, p_limit integer, p_after text, p_given double precision
) returns setof json
language plpgsql stable
as $$
declare
    now_is timestamptz := interlock.now_or(p_given);
    shown integer := 0;
    candidates cursor for
        select k as claim from interlock.claim k
        where k.namespace = p_namespace and k.key >= p_prefix and k.key > p_after
        order by k.key;
    c interlock.claim;
begin
    for candidate in candidates loop
        c := candidate.claim;
        exit when shown >= p_limit or not starts_with(c.key, p_prefix);
        if c.kept_until > now_is and c.state = coalesce(p_state, c.state) then
            shown := shown + 1;
            return next interlock.claim_view(c, now_is);
        end if;
    end loop;
end
$$;
