-- Wait for the disk on commit, even where the server's default is not to: what was accepted must survive a crash of the
-- server.
create or replace function interlock.durably() returns void
language plpgsql volatile
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
end
$$;
