-- The first time from p_at on at which a start does not exceed p_most starts of a key within p_per, counting past
-- starts and those planned by reservations with a smaller ticket than p_ticket. Windows of p_most times are visited in
-- order. A window without room has none until p_per after its first time, so the candidate moves there.
create or replace function interlock.limit_fit(
    p_namespace text, p_key text, p_most integer, p_per bigint, p_at bigint, p_ticket bigint, p_now timestamptz,
    p_fresh bigint
) returns bigint
language plpgsql volatile
as $$
declare
    times bigint[];
    i integer := 1;
    fit bigint := p_at;
begin
    select array_agg(t.at order by t.at) into times
    from (
        select s.at from interlock.limit_start s
        where s.namespace = p_namespace and s.key = p_key and s.at > p_at - p_per
        union all
        select u.at from interlock.limit_uses(p_namespace, p_key, p_now, p_fresh) u
        where u.live and not u.started and u.ticket < p_ticket and u.at > p_at - p_per
    ) t;
    while i + p_most - 1 <= cardinality(times) loop
        if greatest(times[i + p_most - 1], fit) - least(times[i], fit) < p_per then
            fit := times[i] + p_per;
        elsif times[i] >= fit then
            exit;
        end if;
        i := i + 1;
    end loop;
    return fit;
end
$$;
