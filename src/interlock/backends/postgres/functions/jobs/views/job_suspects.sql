-- The suspects of one group, of which p_half is one half, and all suspects that are running: [[IDs of the half, count],
-- the same for the other half, [[session, host, pid, program, whether in this half, whether in this group, IDs,
-- count]]]. At max_count 5 IDs and 20 workers are named.
create or replace function interlock.job_suspects(p_namespace text, p_half bigint) returns jsonb
language sql stable
as $$
    select jsonb_build_array(mine.told, other.told, running.told)
    from (
        select jsonb_build_array(coalesce(jsonb_agg(j.id order by j.id) filter (where j.n <= 5), '[]'), count(*)) as told
        from (select x.id, row_number() over (order by x.id) as n from interlock.job x where x.half = p_half) j
    ) mine
    cross join (
        select jsonb_build_array(coalesce(jsonb_agg(j.id order by j.id) filter (where j.n <= 5), '[]'), count(*)) as told
        from (select x.id, row_number() over (order by x.id) as n from interlock.job x where x.half = (p_half # 1)) j
    ) other
    cross join (
        select coalesce(jsonb_agg(jsonb_build_array(
                   w.session, w.host, w.pid, w.program, r.half = p_half, r.half / 2 = p_half / 2, r.ids, r.count)
                   order by r.half = p_half desc, r.half / 2 = p_half / 2 desc, w.session), '[]') as told
        from (
            select c.session_id, c.half, jsonb_agg(c.id order by c.id) filter (where c.n <= 5) as ids, count(*) as count
            from (
                select x.session_id, j.half, j.id, row_number() over (partition by x.session_id, j.half order by j.id) as n
                from interlock.job_fetched x
                cross join lateral unnest(x.ids) as o (id)
                join interlock.job j on j.id = o.id and j.half is not null
                where x.namespace = p_namespace
            ) c
            group by c.session_id, c.half order by c.half / 2 = p_half / 2 desc, c.session_id limit 20
        ) r
        join interlock.job_session w on w.id = r.session_id
    ) running
$$;
