-- What must survive a crash of the server waits for the disk, also where the server's default is not to.
create or replace function interlock.durably() returns void
language plpgsql volatile
as $$
begin
    if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'local', true);
    end if;
end
$$;
