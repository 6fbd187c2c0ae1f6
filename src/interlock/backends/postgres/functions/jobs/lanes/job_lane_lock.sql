-- Lock a lane, and create its row if there is none. Rows of lanes are created one at a time: a transaction that waited
-- for another's new lane while it holds locks could deadlock.
create or replace function interlock.job_lane_lock(p_namespace text, p_lane text) returns void
language plpgsql volatile
as $$
begin
    loop
        perform from interlock.job_lane l where l.lane = p_lane for update;
        exit when found;
        perform pg_advisory_xact_lock(1229870158, hashtext(p_namespace));
        insert into interlock.job_lane (lane, low) values (p_lane, 0) on conflict do nothing;
    end loop;
end
$$;
