-- The cycle of waits that p_caller would close by waiting for p_key, as [caller, key, holder] triples; null if there is
-- none.
create or replace function interlock.lock_cycle(p_namespace text, p_caller text, p_key text, p_now timestamptz) returns jsonb
language sql volatile
as $$
    with recursive held as not materialized (
        select l.key, l.caller
        from interlock.lock l
        join interlock.session s on s.namespace = l.namespace and s.id = l.session and s.expires_at > p_now
        where l.namespace = p_namespace and l.owner is not null and l.expires_at > p_now
    ),
    walk (holder, seen, path) as (
        select h.caller, array[p_caller], jsonb_build_array(jsonb_build_array(p_caller, p_key, h.caller))
        from held h where h.key = p_key
        union all
        select h.caller, walk.seen || walk.holder, walk.path || jsonb_build_array(jsonb_build_array(w.caller, w.key, h.caller))
        from walk
        join interlock.waiter w on w.namespace = p_namespace and w.caller = walk.holder
            and (w.gives_up_at is null or w.gives_up_at > p_now)
        join interlock.session ws on ws.namespace = p_namespace and ws.id = w.session and ws.expires_at > p_now
        join held h on h.key = w.key
        where walk.holder <> all (walk.seen)
    )
    select path from walk where holder = p_caller limit 1
$$;
