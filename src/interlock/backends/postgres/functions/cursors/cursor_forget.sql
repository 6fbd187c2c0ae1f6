-- Remove a cursor and its history; no row if there was none.
create or replace function interlock.cursor_forget(p_namespace text, p_name text)
returns table (name text, value text, version bigint, moved_at double precision, moved_by text)
language plpgsql volatile
as $$
begin
    delete from interlock.cursor c where c.namespace = p_namespace and c.name = p_name
    returning c.version into cursor_forget.version;
    if not found then
        return;
    end if;
    perform interlock.durably();
    return query
        select m.name::text, m.value, m.version, extract(epoch from m.moved_at)::float8, m.moved_by
        from interlock.cursor_move m
        where m.namespace = p_namespace and m.name = p_name and m.version = cursor_forget.version;
    delete from interlock.cursor_move m where m.namespace = p_namespace and m.name = p_name;
end
$$;
