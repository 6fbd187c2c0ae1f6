-- Append to the logs of fetched jobs, and set their progress. Returns the numbers of the reports whose fetches have ended,
-- or null if there are none. A chunk that begins within the first p_head_lines lines and p_head_bytes bytes belongs to the
-- head of its log and is never dropped. Rows are locked in the order of IDs. The commit does not wait for the disk: that of
-- the acknowledgement that follows does.
-- planner: index_reads
create or replace function interlock.job_append_logs(
    p_namespace text, p_reports interlock.log_reports, p_chunks interlock.log_chunks,
    p_max_lines integer, p_max_bytes integer, p_head_lines integer, p_head_bytes integer, p_clock double precision
) returns integer[]
language plpgsql volatile
as $$
declare
    now_us constant bigint := interlock.micros(interlock.now_or(p_clock));
    in_force integer[];
    old record;
    oversized bigint[];
begin
    perform set_config('synchronous_commit', 'off', true);
    select array_agg(r.n::integer) into in_force
    from unnest(p_reports.ids, p_reports.fences) with ordinality as r (id, fence, n)
    join interlock.job_fetched f on f.fence = r.fence and f.namespace = p_namespace and r.id = any (f.ids);
    insert into interlock.job_log (
        id, namespace, fence, attempt, report, lines, kept_lines, kept_bytes, checked_at)
    select p_reports.ids[n], p_namespace, p_reports.fences[n], p_reports.attempts[n], 0, 0, 0, 0, now_us
    from unnest(in_force) as n order by n
    on conflict do nothing;
    -- The logs as they are now, locked; reports that were applied before, or that a later fetch has overtaken, are left out.
    select array_agg(x.n order by x.n) as numbers, array_agg(x.lines order by x.n) as lines,
           array_agg(x.kept_bytes order by x.n) as bytes
    into old
    from (
        select n, l.lines, l.kept_bytes
        from unnest(in_force) as n
        join interlock.job_log l on l.id = p_reports.ids[n]
        where l.fence < p_reports.fences[n] or (l.fence = p_reports.fences[n] and l.report < p_reports.numbers[n])
        order by l.id
        for update of l
    ) x;
    with added as (
        select p_reports.ids[c.report] as id, p_reports.fences[c.report] as fence, p_reports.attempts[c.report] as attempt,
               c.lines, c.bytes, c.content,
               o.lines + sum(c.skipped + c.lines) over behind - c.lines + 1 as first,
               o.lines + sum(c.skipped + c.lines) over behind - c.lines - c.skipped as lines_before,
               o.bytes + sum(c.bytes) over behind - c.bytes as bytes_before
        from unnest(p_chunks.reports, p_chunks.skipped, p_chunks.lines, p_chunks.bytes, p_chunks.contents)
             with ordinality as c (report, skipped, lines, bytes, content, n)
        join unnest(old.numbers, old.lines, old.bytes) as o (n, lines, bytes) on o.n = c.report
        window behind as (partition by c.report order by c.n)
    )
    insert into interlock.job_log_chunk (id, first, fence, attempt, lines, bytes, head, content)
    select a.id, a.first, a.fence, a.attempt, a.lines, a.bytes,
           a.lines_before < p_head_lines and a.bytes_before < p_head_bytes, a.content
    from added a order by a.id, a.first;
    with changed as (
        select n, count(c.report) as chunks, coalesce(sum(c.skipped + c.lines), 0) as lines,
               coalesce(sum(c.lines), 0) as kept_lines, coalesce(sum(c.bytes), 0) as kept_bytes
        from unnest(old.numbers) as n
        left join unnest(p_chunks.reports, p_chunks.skipped, p_chunks.lines, p_chunks.bytes)
             as c (report, skipped, lines, bytes) on c.report = n
        group by n
    ),
    applied as (
        update interlock.job_log l
        set fence = p_reports.fences[c.n], attempt = p_reports.attempts[c.n], report = p_reports.numbers[c.n],
            lines = l.lines + c.lines, kept_lines = l.kept_lines + c.kept_lines, kept_bytes = l.kept_bytes + c.kept_bytes,
            progress = case when p_reports.times[c.n] is not null or l.fence < p_reports.fences[c.n]
                            then p_reports.fractions[c.n] else l.progress end,
            message = case when p_reports.times[c.n] is not null or l.fence < p_reports.fences[c.n]
                           then p_reports.messages[c.n] else l.message end,
            progress_at = case when p_reports.times[c.n] is not null or l.fence < p_reports.fences[c.n]
                               then p_reports.times[c.n] else l.progress_at end
        from changed c where l.id = p_reports.ids[c.n]
        returning l.id, l.kept_lines, l.kept_bytes
    )
    select array_agg(a.id) into oversized from applied a where a.kept_lines > p_max_lines or a.kept_bytes > p_max_bytes;
    if oversized is not null then
        perform interlock.job_trim_logs(oversized, p_max_lines, p_max_bytes);
    end if;
    if cardinality(p_reports.ids) = coalesce(cardinality(in_force), 0) then
        return null;
    end if;
    return array(
        select n from generate_series(1, cardinality(p_reports.ids)) as n
        where in_force is null or n <> all (in_force));
end
$$;
