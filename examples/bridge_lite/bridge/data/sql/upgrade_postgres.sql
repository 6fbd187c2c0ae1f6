-- Keeps the table intents and Interlock's records equal while an old program still writes to the table. Both directions
-- happen in the transaction of the write, so neither side ever lacks a committed write of the other. $NAMESPACE is
-- replaced by the namespace of the app. docs/decisions/0072 explains why the two cannot deadlock.
alter table intents add column if not exists version bigint not null default 0;

-- The history of an intent as the table shows it: what the table had, then what Interlock has applied.
create or replace function bridge_history(p_body jsonb) returns jsonb
language sql immutable
as $$
    select coalesce(p_body -> 'imported_corrections', '[]') || coalesce(jsonb_agg(jsonb_build_object(
               'correction_id', c.one ->> 0, 'source', c.one ->> 3, 'reason', c.one ->> 4,
               'applied_at', to_timestamp((c.one ->> 2)::double precision)) order by c.n), '[]')
    from jsonb_array_elements(p_body #> '{_interlock,corrections,last}') with ordinality as c (one, n)
$$;

-- The entries of a history that Interlock has not applied itself.
create or replace function bridge_imported(p_history jsonb, p_body jsonb) returns jsonb
language sql immutable
as $$
    select coalesce(jsonb_agg(h.one order by h.n), '[]')
    from jsonb_array_elements(p_history) with ordinality as h (one, n)
    where not exists (
        select from jsonb_array_elements(p_body #> '{_interlock,corrections,last}') as c (one)
        where c.one ->> 0 = h.one ->> 'correction_id')
$$;

-- A write to the table becomes a version of the record, with its journal entry. It waits for a write of Interlock's that
-- is in progress, which is short and never waits for this one.
create or replace function bridge_intents_to_record() returns trigger
language plpgsql security definer set search_path from current
as $$
declare
    r interlock.record;
    now_us bigint;  -- read after the record is locked, so that entries are in the order of versions
    by_table jsonb := '["table intents", "written by a program that does not use Interlock", null, null, null]';
    key text := 'IntentModel:' || coalesce(new.id, old.id)::text;
    own jsonb;
    before jsonb;
    after jsonb;
begin
    if current_setting('bridge.mirroring', true) = 'on' then
        return null;
    end if;
    perform set_config('bridge.importing', 'on', true);
    if tg_op = 'DELETE' then
        delete from interlock.record x
        where x.namespace = $NAMESPACE and x.kind = 'IntentModel' and x.id = old.id::text returning * into r;
        if found then
            now_us := interlock.micros(clock_timestamp());
            perform interlock.journal_add($NAMESPACE, now_us, by_table, 'record.delete', key,
                ((r.body::jsonb - '_interlock') || jsonb_build_object('status', r.status))::json, null, r.version, null);
        end if;
        perform set_config('bridge.importing', 'off', true);
        return null;
    end if;
    select * into r from interlock.record x
    where x.namespace = $NAMESPACE and x.kind = 'IntentModel' and x.id = new.id::text for update;
    now_us := greatest(r.updated_at, interlock.micros(clock_timestamp()));
    own := jsonb_build_object(
        'type', new.type, 'payload', new.payload, 'technical_actor', new.technical_actor,
        'imported_corrections', bridge_imported(new.correction_history, coalesce(r.body, '{}')::jsonb));
    after := own || jsonb_build_object('status', lower(trim(new.status)));
    if r.id is null then
        insert into interlock.record (
            version, fence, created_at, updated_at, namespace, kind, id, uid, status, body)
        values (0, null, interlock.micros(new.created_at), now_us, $NAMESPACE, 'IntentModel', new.id::text,
                md5(random()::text || clock_timestamp()::text), after ->> 'status', own::text);
        perform interlock.journal_add(
            $NAMESPACE, now_us, by_table, 'record.create', key, null, after::json, null, 0);
    else
        before := (r.body::jsonb - '_interlock') || jsonb_build_object('status', r.status);
        if before <> after then
            update interlock.record x
            set version = r.version + 1, status = after ->> 'status', body = (r.body::jsonb || own)::text,
                updated_at = now_us
            where x.namespace = $NAMESPACE and x.kind = 'IntentModel' and x.id = new.id::text;
            perform interlock.journal_add(
                $NAMESPACE, now_us, by_table, 'record.update', key,
                (select json_object_agg(b.key, b.value) from jsonb_each(before) b where b.value <> after -> b.key),
                (select json_object_agg(a.key, a.value) from jsonb_each(after) a
                 where (a.value = before -> a.key) is not true),
                r.version, r.version + 1);
            perform set_config('bridge.mirroring', 'on', true);
            update intents t set version = r.version + 1 where t.id = new.id;
            perform set_config('bridge.mirroring', 'off', true);
        end if;
    end if;
    perform set_config('bridge.importing', 'off', true);
    return null;
end
$$;

-- A write of Interlock's appears in the table. It never waits for the row: while an old program has it locked, the write
-- fails with lock_not_available, and Interlock repeats it. By then the old program's version is the newer one.
create or replace function bridge_record_to_intents() returns trigger
language plpgsql security definer set search_path from current
as $$
declare
    body jsonb;
begin
    if current_setting('bridge.importing', true) = 'on' then
        return null;
    end if;
    perform from intents t where t.id = coalesce(new.id, old.id)::uuid for update nowait;
    perform set_config('bridge.mirroring', 'on', true);
    if tg_op = 'DELETE' then
        delete from intents t where t.id = old.id::uuid;
    else
        body := new.body::jsonb;
        insert into intents as t (
            id, type, status, payload, correction_history, technical_actor, created_at, updated_at, version)
        values (new.id::uuid, body ->> 'type', new.status, body -> 'payload', bridge_history(body),
                body ->> 'technical_actor', to_timestamp(new.created_at / 1e6), to_timestamp(new.updated_at / 1e6),
                new.version)
        on conflict (id) do update
        set type = excluded.type, status = excluded.status, payload = excluded.payload,
            correction_history = excluded.correction_history, technical_actor = excluded.technical_actor,
            updated_at = excluded.updated_at, version = excluded.version;
    end if;
    perform set_config('bridge.mirroring', 'off', true);
    return null;
end
$$;

create or replace trigger bridge_to_record after insert or update or delete on intents
    for each row execute function bridge_intents_to_record();
create or replace trigger bridge_to_intents after insert or update on interlock.record
    for each row when (new.namespace = $NAMESPACE and new.kind = 'IntentModel')
    execute function bridge_record_to_intents();
create or replace trigger bridge_to_intents_delete after delete on interlock.record
    for each row when (old.namespace = $NAMESPACE and old.kind = 'IntentModel')
    execute function bridge_record_to_intents();
