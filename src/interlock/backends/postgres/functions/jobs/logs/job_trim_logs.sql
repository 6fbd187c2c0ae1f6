-- Drop chunks of logs whose rows are locked, the oldest after the head first, until each log is within its bounds. The
-- newest chunk of a log is kept in any case.
-- planner: caller
create or replace function interlock.job_trim_logs(p_ids bigint[], p_max_lines integer, p_max_bytes integer) returns void
language sql volatile
as $$
    with sized as materialized (
        select c.id, c.first, c.lines, c.bytes, c.head,
               sum(c.lines) over newer as lines_from, sum(c.bytes) over newer as bytes_from,
               sum(c.lines) filter (where c.head) over (partition by c.id) as head_lines,
               sum(c.bytes) filter (where c.head) over (partition by c.id) as head_bytes,
               max(c.first) over (partition by c.id) as newest
        from interlock.job_log_chunk c where c.id = any (p_ids)
        window newer as (partition by c.id order by c.first desc)
    ),
    dropped as (
        delete from interlock.job_log_chunk c using sized s
        where c.id = s.id and c.first = s.first and not s.head and s.first < s.newest
          and (s.lines_from + coalesce(s.head_lines, 0) > p_max_lines or s.bytes_from + coalesce(s.head_bytes, 0) > p_max_bytes)
        returning c.id, c.lines, c.bytes
    ),
    totals as (
        select d.id, sum(d.lines) as lines, sum(d.bytes) as bytes from dropped d group by d.id
    )
    update interlock.job_log l
    set kept_lines = l.kept_lines - t.lines, kept_bytes = l.kept_bytes - t.bytes
    from totals t where l.id = t.id
$$;
