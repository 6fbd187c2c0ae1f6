-- Record what the code of a process declares, and store what is new. p_declarations is a JSON array of [name, definition,
-- fingerprint, next_at, anchor_at], in the order of their names, so that two processes never deadlock. A declaration that was replaced
-- before replaces the stored one only if no live process declares that one any more.
-- planner: keys
create or replace function interlock.schedule_declare(
    p_namespace text, p_session text, p_declarations jsonb, p_attribution jsonb, p_clock double precision
) returns void
language plpgsql volatile
as $$
declare
    now_is timestamptz := interlock.now_or(p_clock);
    now_us bigint := interlock.micros(now_is);
    before interlock.schedule;
    saved interlock.schedule;
    declared jsonb;
    fingerprint text;
    earlier text[];
begin
    perform interlock.durably();
    delete from interlock.schedule_declaration d
    where (d.namespace, d.name, d.session) in (
        select x.namespace, x.name, x.session from interlock.schedule_declaration x
        where x.namespace = p_namespace
          and not exists (
              select from interlock.session y
              where y.namespace = x.namespace and y.id = x.session and y.expires_at > now_is)
        order by x.name, x.session for update skip locked);
    for declared in select u.value from jsonb_array_elements(p_declarations) as u (value) loop
        fingerprint := declared ->> 2;
        perform interlock.schedule_lock(p_namespace, declared ->> 0);
        insert into interlock.schedule_declaration as d (namespace, name, session, fingerprint)
        values (p_namespace, declared ->> 0, p_session, fingerprint)
        on conflict on constraint schedule_declaration_pkey do update set fingerprint = excluded.fingerprint;
        before := null;
        select s.* into before from interlock.schedule s
        where s.namespace = p_namespace and s.name = declared ->> 0 for update;
        earlier := '{}';
        if before.name is not null then
            continue when before.origin <> 'code' or before.declaration = fingerprint;
            earlier := before.replaced;
            continue when fingerprint = any (earlier) and exists (
                select from interlock.schedule_declaration d
                join interlock.session x on x.namespace = d.namespace and x.id = d.session and x.expires_at > now_is
                where d.namespace = p_namespace and d.name = before.name and d.fingerprint = before.declaration);
            earlier := array_remove(earlier, fingerprint) || before.declaration;
            earlier := earlier[greatest(1, cardinality(earlier) - 19):cardinality(earlier)];
        end if;
        select w.* into saved from interlock.schedule_write(
            p_namespace, declared ->> 0, 'code',
            case when before.name is null or before.state = 'off' then 'active' else before.state end, declared -> 1,
            (declared ->> 4)::bigint, (declared ->> 3)::bigint, fingerprint, earlier, '', p_attribution, now_us) w;
        perform interlock.journal_add(
            p_namespace, now_us, p_attribution, 'schedule.declare', saved.name,
            case when before.name is not null then interlock.schedule_journal(before) end,
            interlock.schedule_journal(saved), before.version);
        perform interlock.schedule_notify(p_namespace);
    end loop;
end
$$;
