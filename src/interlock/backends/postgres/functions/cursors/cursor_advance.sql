-- Move a cursor from the expected version (0 if there is none). A move that the same ID has already made is reported as
-- done.
create or replace function interlock.cursor_advance(
    p_namespace text, p_name text, p_expected bigint, p_value text, p_id text, p_by text, p_kept integer,
    p_clock double precision,
    out moved boolean, out at_version bigint, out value text, out moved_at double precision, out moved_by text
)
language plpgsql volatile
as $$
begin
    perform interlock.durably();
    if p_expected = 0 then
        insert into interlock.cursor as c (namespace, name, version)
        values (p_namespace, p_name, nextval('interlock.fence')) on conflict do nothing
        returning c.version into at_version;
    else
        update interlock.cursor c set version = nextval('interlock.fence')
        where c.namespace = p_namespace and c.name = p_name and c.version = p_expected
        returning c.version into at_version;
    end if;
    moved := found;
    if moved then
        insert into interlock.cursor_move as m (namespace, name, version, value, moved_at, moved_by, id)
        values (p_namespace, p_name, at_version, p_value, interlock.now_or(p_clock), p_by, p_id)
        returning m.value, extract(epoch from m.moved_at), m.moved_by into value, moved_at, moved_by;
        delete from interlock.cursor_move m
        where m.namespace = p_namespace and m.name = p_name
          and m.version <= (
              select x.version from interlock.cursor_move x
              where x.namespace = p_namespace and x.name = p_name
              order by x.version desc limit 1 offset p_kept);
        return;
    end if;
    select m.version, m.value, extract(epoch from m.moved_at), m.moved_by into at_version, value, moved_at, moved_by
    from interlock.cursor_move m
    where m.namespace = p_namespace and m.name = p_name and m.id = p_id;
    moved := found;
    if not moved then
        select m.version, m.value, extract(epoch from m.moved_at), m.moved_by into at_version, value, moved_at, moved_by
        from interlock.cursor c
        join interlock.cursor_move m on m.namespace = c.namespace and m.name = c.name and m.version = c.version
        where c.namespace = p_namespace and c.name = p_name;
    end if;
end
$$;
