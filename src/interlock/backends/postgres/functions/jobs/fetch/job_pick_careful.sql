-- Add to ready rows of a pool those that are given only to who can start now, in order. p_suspects: whether suspects may be
-- among them; they are of one half, which is p_half, or that of the first of them if it is null.
-- planner: index_reads
create or replace function interlock.job_pick_careful(
    p_pool text, p_names text[], p_most integer, p_suspects boolean, inout p_half bigint, inout tids tid[], inout ids bigint[],
    inout sorts bigint[], inout limited boolean[], inout lanes text[], inout keys text[], inout mosts integer[],
    out classes smallint[]
)
language plpgsql volatile
as $$
begin
    if p_suspects and p_half is null then
        p_half := (
            select x.half from (
                select r.half from interlock.job_ready r
                where r.pool = p_pool and r.class = 2 and r.name = any (p_names)
                order by r.sort, r.id limit 1 for update skip locked) x);
    end if;
    select array_agg(p.tid order by p.sort, p.id), array_agg(p.id order by p.sort, p.id),
           array_agg(p.sort order by p.sort, p.id), array_agg(p.limited order by p.sort, p.id),
           array_agg(p.lane order by p.sort, p.id), array_agg(p.key order by p.sort, p.id),
           array_agg(p.most order by p.sort, p.id), array_agg(p.class order by p.sort, p.id)
    into tids, ids, sorts, limited, lanes, keys, mosts, classes
    from (
        select u.tid, u.id, u.sort, u.limited, u.lane, u.key, u.most, 0::smallint as class
        from unnest(tids, ids, sorts, limited, lanes, keys, mosts) as u (tid, id, sort, limited, lane, key, most)
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most, r.class from interlock.job_ready r
            where r.pool = p_pool and r.class = 1 and r.name = any (p_names)
            order by r.sort, r.id limit p_most for update skip locked) paced
        union all
        select * from (
            select r.ctid, r.id, r.sort, r.limited, r.lane, r.use_key, r.use_most, r.class from interlock.job_ready r
            where p_suspects and r.pool = p_pool and r.class = 2 and r.half = p_half and r.name = any (p_names)
            order by r.sort, r.id limit p_most for update skip locked) suspect
    ) p;
end
$$;
