-- Keeps the table intents and Interlock's records equal while an old program still writes to the table. SQLite has one
-- writer at a time, so each trigger sees everything that was committed before. A trigger does nothing if both sides are
-- equal already, which ends the way there and back. SQLite's clock has milliseconds: an entry is never older than the
-- version before it. $NAMESPACE is replaced by the namespace of the app.
create trigger bridge_to_record_insert after insert on intents
when not exists (
    select 1 from interlock_record r where r.namespace = $NAMESPACE and r.kind = 'IntentModel' and r.id = new.id)
begin
    insert into interlock_record (namespace, kind, id, uid, version, status, body, created_at, updated_at)
    values ($NAMESPACE, 'IntentModel', new.id, lower(hex(randomblob(8))), 0, lower(trim(new.status)),
            json_object('type', new.type, 'payload', json(new.payload), 'technical_actor', new.technical_actor,
                        'imported_corrections', json(new.correction_history)),
            cast((julianday('now') - 2440587.5) * 86400000000 as integer),
            cast((julianday('now') - 2440587.5) * 86400000000 as integer));
    insert into interlock_journal (at, namespace, actor, reason, action, subject_kind, subject_key, to_version, after)
    select r.updated_at, r.namespace, 'table intents', 'written by a program that does not use Interlock',
           'record.create', 'record', 'IntentModel:' || r.id, 0, json_set(r.body, '$.status', r.status)
    from interlock_record r where r.namespace = $NAMESPACE and r.kind = 'IntentModel' and r.id = new.id;
end;

create trigger bridge_to_record_update after update of type, status, payload, technical_actor, correction_history
on intents
when exists (
    select 1 from interlock_record r
    where r.namespace = $NAMESPACE and r.kind = 'IntentModel' and r.id = new.id
      and (r.status is not lower(trim(new.status)) or json_extract(r.body, '$.type') is not new.type
           or json_extract(r.body, '$.payload') is not json(new.payload)
           or json_extract(r.body, '$.technical_actor') is not new.technical_actor
           or old.correction_history is not new.correction_history))
begin
    insert into interlock_journal (
        at, namespace, actor, reason, action, subject_kind, subject_key, from_version, to_version, before, after)
    select max(r.updated_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer)), r.namespace, 'table intents',
           'written by a program that does not use Interlock', 'record.update', 'record', 'IntentModel:' || r.id,
           r.version, r.version + 1,
           json_object('status', r.status, 'type', json_extract(r.body, '$.type'),
                       'payload', json_extract(r.body, '$.payload'),
                       'technical_actor', json_extract(r.body, '$.technical_actor')),
           json_object('status', lower(trim(new.status)), 'type', new.type, 'payload', json(new.payload),
                       'technical_actor', new.technical_actor)
    from interlock_record r where r.namespace = $NAMESPACE and r.kind = 'IntentModel' and r.id = new.id;
    update interlock_record
    set version = version + 1, status = lower(trim(new.status)),
        body = json_set(body, '$.type', new.type, '$.payload', json(new.payload),
                        '$.technical_actor', new.technical_actor, '$.imported_corrections', (
            select json_group_array(json(h.value)) from json_each(new.correction_history) h
            where json_extract(h.value, '$.correction_id') is null or json_extract(h.value, '$.correction_id') not in (
                select json_extract(c.value, '$[0]') from json_each(body, '$._interlock.corrections.last') c))),
        updated_at = max(updated_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer))
    where namespace = $NAMESPACE and kind = 'IntentModel' and id = new.id;
end;

create trigger bridge_to_record_delete after delete on intents
begin
    insert into interlock_journal (
        at, namespace, actor, reason, action, subject_kind, subject_key, from_version, before)
    select max(r.updated_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer)), r.namespace, 'table intents',
           'written by a program that does not use Interlock', 'record.delete', 'record', 'IntentModel:' || r.id,
           r.version, json_set(r.body, '$.status', r.status)
    from interlock_record r where r.namespace = $NAMESPACE and r.kind = 'IntentModel' and r.id = old.id;
    delete from interlock_record where namespace = $NAMESPACE and kind = 'IntentModel' and id = old.id;
end;

create trigger bridge_to_intents_insert after insert on interlock_record
when new.namespace = $NAMESPACE and new.kind = 'IntentModel'
begin
    insert or ignore into intents (
        id, type, status, payload, correction_history, technical_actor, created_at, updated_at, version)
    values (new.id, json_extract(new.body, '$.type'), new.status, json_extract(new.body, '$.payload'),
            coalesce(json_extract(new.body, '$.imported_corrections'), '[]'),
            json_extract(new.body, '$.technical_actor'),
            strftime('%Y-%m-%dT%H:%M:%fZ', new.created_at / 1e6, 'unixepoch'),
            strftime('%Y-%m-%dT%H:%M:%fZ', new.updated_at / 1e6, 'unixepoch'), new.version);
end;

create trigger bridge_to_intents_update after update on interlock_record
when new.namespace = $NAMESPACE and new.kind = 'IntentModel'
begin
    update intents
    set type = json_extract(new.body, '$.type'), status = new.status, payload = json_extract(new.body, '$.payload'),
        technical_actor = json_extract(new.body, '$.technical_actor'), version = new.version,
        updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', new.updated_at / 1e6, 'unixepoch'),
        correction_history = (
            select json_group_array(json(x.one)) from (
                select i.value as one from json_each(new.body, '$.imported_corrections') i
                union all
                select json_object('correction_id', json_extract(c.value, '$[0]'), 'source', json_extract(c.value, '$[3]'),
                                   'reason', json_extract(c.value, '$[4]'), 'applied_at',
                                   strftime('%Y-%m-%dT%H:%M:%fZ', json_extract(c.value, '$[2]'), 'unixepoch'))
                from json_each(new.body, '$._interlock.corrections.last') c) x)
    where id = new.id;
end;

create trigger bridge_to_intents_delete after delete on interlock_record
when old.namespace = $NAMESPACE and old.kind = 'IntentModel'
begin
    delete from intents where id = old.id;
end;
