-- Remove a cursor and its history. Returns no row if there was none.
create or replace function interlock.cursor_forget(
    p_namespace text, p_name text, p_attribution jsonb, p_clock double precision
)
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
    select m.name::text, m.value, extract(epoch from m.moved_at)::float8, m.moved_by
    into cursor_forget.name, cursor_forget.value, cursor_forget.moved_at, cursor_forget.moved_by
    from interlock.cursor_move m
    where m.namespace = p_namespace and m.name = p_name and m.version = cursor_forget.version;
    delete from interlock.cursor_move m where m.namespace = p_namespace and m.name = p_name;
    perform interlock.journal_add(
        p_namespace, interlock.micros(interlock.now_or(p_clock)), p_attribution, 'cursor.forget', p_name,
        json_build_object('value', cursor_forget.value::json, 'version', cursor_forget.version,
                          'by', cursor_forget.moved_by),
        null, cursor_forget.version);
    return next;
end
$$;
