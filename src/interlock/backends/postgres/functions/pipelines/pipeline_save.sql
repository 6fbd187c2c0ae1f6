-- Store a checkpoint: the progress of a run and of one stage, the change of the record, and the journal entries. The record
-- is locked first, since others may keep it locked for long. Then the fetch of the run's job is locked, so that it stays in
-- force until the commit. Acknowledgements of other jobs of the same fetch wait for this lock only briefly. The arrays are one change as record_write
-- takes it, or null. p_stage is the JSON array [name, position, state, attempt, error], or null. p_entries is a JSON array of
-- [attribution, action, subject_key, before, after], with before and after as text. Answers saved, ended, or how the change
-- was refused, with the values of record_write.
-- planner: keys
create or replace function interlock.pipeline_save(
    p_namespace text, p_id bigint, p_fence bigint, p_step integer, p_pipeline text, p_kind text, p_record text, p_mode text,
    p_names text, p_state text, p_is_final boolean, p_uid text, p_version bigint, p_error text, p_stage jsonb,
    p_entries jsonb, p_clock double precision,
    p_writes integer[], p_kinds text[], p_ids text[], p_uids text[], p_expected bigint[], p_statuses text[],
    p_bodies text[], p_owners text[], p_fences bigint[], p_actors text[], p_reasons text[], p_actions text[],
    p_subject_kinds text[], p_subject_keys text[], p_befores text[], p_afters text[], p_from_versions bigint[],
    p_to_versions bigint[], p_cause_events bigint[], p_cause_jobs bigint[], p_cause_fences bigint[],
    out answer text, out version bigint, out at bigint, out details jsonb
)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    last record;
    written record;
    now_us bigint;
    is_over boolean;
begin
    perform interlock.durably();
    if p_kinds is not null then
        perform from interlock.record r
        where r.namespace = p_namespace and r.kind = p_kind and r.id = p_record for no key update;
    end if;
    perform from interlock.job_fetched c
    where c.fence = p_fence and c.namespace = p_namespace and p_id = any (c.ids) for key share;
    if not found then
        answer := 'ended';
        return;
    end if;
    select r.fence, r.step, r.version, r.written_at into last from interlock.pipeline_run r where r.id = p_id;
    if last.fence = p_fence and last.step = p_step then
        answer := 'saved';
        version := last.version;
        at := last.written_at;
        return;
    end if;
    version := p_version;
    if p_kinds is not null then
        select w.answer, w.version, w.at, w.details into written
        from interlock.record_write(
            p_namespace, p_writes, p_kinds, p_ids, p_uids, p_expected, p_statuses, p_bodies, p_owners, p_fences, p_actors,
            p_reasons, p_actions, p_subject_kinds, p_subject_keys, p_befores, p_afters, p_from_versions, p_to_versions,
            p_cause_events, p_cause_jobs, p_cause_fences, true, p_clock) w;
        if written.answer <> 'written' then
            answer := written.answer;
            version := written.version;
            at := written.at;
            details := written.details;
            return;
        end if;
        version := written.version;
        at := written.at;
    end if;
    answer := 'saved';
    -- After the write, so that the journal shows the record's change before the end of the stage.
    now_us := interlock.micros(interlock.now_or(p_clock));
    at := coalesce(at, now_us);
    insert into interlock.pipeline_run as r (
        id, fence, version, written_at, started_at, ended_at, step, namespace, pipeline, kind, record, uid, mode, state,
        names, error)
    values (p_id, p_fence, pipeline_save.version, pipeline_save.at, now_us, case when p_is_final then now_us end, p_step,
            p_namespace, p_pipeline, p_kind, p_record, p_uid, p_mode, p_state, p_names, p_error)
    on conflict (id) do update
    set fence = excluded.fence, version = excluded.version, written_at = excluded.written_at, ended_at = excluded.ended_at,
        step = excluded.step, uid = excluded.uid, mode = excluded.mode, state = excluded.state, error = excluded.error
    where r.fence <> excluded.fence or r.step < excluded.step;
    if not found then
        -- The same checkpoint was committed meanwhile. It changes no record: one that does waits for the record first.
        select r.version, r.written_at into version, at from interlock.pipeline_run r where r.id = p_id;
        return;
    end if;
    perform interlock.journal_add(
        p_namespace, now_us, e.entry -> 0, e.entry ->> 1, e.entry ->> 2, (e.entry ->> 3)::json, (e.entry ->> 4)::json)
    from jsonb_array_elements(p_entries) with ordinality as e (entry, n) order by e.n;
    if p_stage is not null then
        is_over := p_stage ->> 2 <> 'running';
        insert into interlock.pipeline_stage as s (run, started_at, ended_at, position, attempt, name, state, error)
        values (p_id, now_us, case when is_over then now_us end, (p_stage ->> 1)::integer, (p_stage ->> 3)::integer,
                p_stage ->> 0, p_stage ->> 2, p_stage ->> 4)
        on conflict (run, name) do update
        set started_at = case when excluded.ended_at is null then excluded.started_at else s.started_at end,
            ended_at = excluded.ended_at, position = excluded.position, attempt = excluded.attempt, state = excluded.state,
            error = excluded.error;
    end if;
end
$$;
