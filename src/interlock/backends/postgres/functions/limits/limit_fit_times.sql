-- The first time from p_at on at which a start does not exceed p_most starts within p_per, given all other times in order.
-- Windows of p_most times are visited in order. A window without room has none until p_per after its first time, so the
-- candidate moves there.
create or replace function interlock.limit_fit_times(p_times bigint[], p_most integer, p_per bigint, p_at bigint) returns bigint
language plpgsql immutable
as $$
declare
    i integer := 1;
    fit bigint := p_at;
begin
    while p_times[i] <= p_at - p_per loop
        i := i + 1;
    end loop;
    while i + p_most - 1 <= cardinality(p_times) loop
        if greatest(p_times[i + p_most - 1], fit) - least(p_times[i], fit) < p_per then
            fit := p_times[i] + p_per;
        elsif p_times[i] >= fit then
            exit;
        end if;
        i := i + 1;
    end loop;
    return fit;
end
$$;
