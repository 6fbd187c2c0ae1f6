-- Accept jobs as interlock.enqueue_many does. p_store: the identity of the database that the caller means; if it is another
-- one, nothing is accepted and null is returned. created: whether each was created, or its key belongs to the job whose ID is
-- returned.
create or replace function interlock.enqueue_jobs(
    p_jobs json, p_namespace text, p_clock double precision, p_store text, out ids bigint[], out created boolean[]
)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant numeric := 366 * 24 * 3600;
    fields constant text[] := array['name', 'arguments', 'queue', 'lane', 'priority', 'delay', 'at', 'limits', 'on_failure',
                                    'coalesce', 'keep_result', 'options', 'hooks', 'cause', 'key', 'keep_key', 'after',
                                    'if_failed', 'expires', 'expires_at'];
    name_pattern constant text := '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$';
    count integer;
    holders bigint[];
    first bigint;
    wrong text;
    wrong_name text;
    new_jobs interlock.new_jobs;
begin
    if p_store <> interlock.store_identity() then
        return;
    end if;
    ids := '{}';
    created := '{}';
    if json_typeof(p_jobs) is distinct from 'array' then
        wrong := 'jobs';
    elsif coalesce(p_namespace, '') = '' then
        wrong := 'namespace';
    elsif (p_clock between 0 and 253402214400) is false then
        wrong := 'clock';
    else
        -- Each condition is tested only if those before it are false, so that every cast succeeds.
        select x.wrong, x.name into wrong, wrong_name
        from (
            select j.n, j.e ->> 'name' as name, case
                when json_typeof(j.e) <> 'object' then 'job'
                when exists (select from json_object_keys(j.e) k (field) where k.field <> all (fields)) then (
                    select k.field from json_object_keys(j.e) k (field) where k.field <> all (fields) limit 1)
                when (json_typeof(j.e -> 'name') = 'string') is not true then 'name'
                when j.e ->> 'name' !~ name_pattern then 'name'
                when json_typeof(coalesce(j.e -> 'queue', '""')) <> 'string' then 'queue'
                when coalesce(j.e ->> 'queue', 'default') !~ name_pattern then 'queue'
                when json_typeof(coalesce(j.e -> 'arguments', '{}')) not in ('object', 'string') then 'arguments'
                when json_typeof(coalesce((j.e ->> 'arguments')::json, '{}')) <> 'object' then 'arguments'
                when octet_length(j.e ->> 'arguments') > 1048576 then 'arguments'
                when json_typeof(coalesce(j.e -> 'lane', '""')) <> 'string' then 'lane'
                when octet_length(j.e ->> 'lane') > 512 then 'lane'
                when coalesce((j.e -> 'priority')::text, '50') !~ '^(100|[1-9]?[0-9])$' then 'priority'
                when json_typeof(coalesce(j.e -> 'delay', '0')) <> 'number' then 'delay'
                when (j.e ->> 'delay')::numeric not between 0 and year then 'delay'
                when json_typeof(coalesce(j.e -> 'at', 'null')) not in ('string', 'null') then 'at'
                when (j.e ->> 'at')::timestamptz not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00' then 'at'
                when (coalesce(j.e -> 'on_failure', '"block"'))::text not in ('"block"', '"skip"', '"park"') then 'on_failure'
                when (coalesce(j.e -> 'coalesce', 'false'))::text not in ('true', 'false') then 'coalesce'
                when (j.e ->> 'coalesce')::boolean and coalesce(j.e ->> 'lane', '') = '' then 'coalesce'
                when json_typeof(coalesce(j.e -> 'keep_result', '0')) <> 'number' then 'keep_result'
                when (j.e ->> 'keep_result')::numeric not between 0 and year then 'keep_result'
                when json_typeof(coalesce(j.e -> 'options', '{}')) <> 'object' then 'options'
                when json_typeof(coalesce(j.e -> 'limits', '[]')) <> 'array' then 'limits'
                when exists (
                    select from json_array_elements(j.e -> 'limits') u
                    where case
                        when json_typeof(u) <> 'array' or json_typeof(u -> 0) <> 'string' or json_typeof(u -> 2) <> 'number'
                            then true
                        when json_array_length(u) <> 3 or octet_length(u ->> 0) not between 1 and 512 then true
                        when (u ->> 1) !~ '^([1-9][0-9]{0,3}|10000)$' then true
                        else (u ->> 2)::numeric not between 0 and year end is not false) then 'limits'
                when (select count(*) > count(distinct u ->> 0) from json_array_elements(j.e -> 'limits') u) then 'limits'
                when json_typeof(coalesce(j.e -> 'key', '""')) <> 'string' or octet_length(j.e ->> 'key') > 512 then 'key'
                when json_typeof(coalesce(j.e -> 'keep_key', '0')) <> 'number' then 'keep_key'
                when (j.e ->> 'keep_key')::numeric not between 0 and year then 'keep_key'
                when json_typeof(coalesce(j.e -> 'after', '[]')) <> 'array' then 'after'
                when exists (
                    select from json_array_elements(j.e -> 'after') a where a::text !~ '^[1-9][0-9]{0,17}$') then 'after'
                when json_array_length(j.e -> 'after') > 100 then 'after'
                when (coalesce(j.e -> 'if_failed', '"cancel"'))::text not in ('"cancel"', '"park"', '"run"') then 'if_failed'
                when json_typeof(coalesce(j.e -> 'expires', 'null')) not in ('number', 'null') then 'expires'
                when (j.e ->> 'expires')::numeric <= 0 or (j.e ->> 'expires')::numeric > year then 'expires'
                when json_typeof(coalesce(j.e -> 'expires_at', 'null')) not in ('string', 'null') then 'expires_at'
                when (j.e ->> 'expires_at')::timestamptz not between '0001-01-02 00:00+00' and '9999-12-30 00:00+00'
                    then 'expires_at'
                when json_typeof(coalesce(j.e -> 'cause', '""')) <> 'string' or octet_length(j.e ->> 'cause') > 512 then 'cause'
                when json_typeof(coalesce(j.e -> 'hooks', '[]')) <> 'array' then 'hooks'
                when exists (
                    select from json_array_elements(j.e -> 'hooks') h
                    where case
                        when json_typeof(h) <> 'array' then true
                        when json_array_length(h) <> 4 or json_typeof(h -> 3) <> 'array' then true
                        when h ->> 0 !~ name_pattern or h ->> 1 !~ name_pattern then true
                        when (h -> 2)::text !~ '^(100|[1-9]?[0-9])$' then true
                        else exists (select from json_array_elements(h -> 3) state where state::text !~ '^"[a-z]{1,63}"$')
                        end is not false) then 'hooks'
                end as wrong
            from json_array_elements(p_jobs) with ordinality as j (e, n)
        ) x
        where x.wrong is not null order by x.n limit 1;
    end if;
    if wrong is not null then
        raise exception 'Invalid % of job %.', wrong, coalesce(wrong_name, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Names have 1 to 63 letters, digits, dots, dashes and underscores, a letter or digit first; '
                         'arguments and options are objects, limits [[key, max_count, seconds]]; spans are seconds up to a year.';
    end if;
    count := json_array_length(p_jobs);
    while cardinality(ids) < count loop
        first := nextval('interlock.job_id');
        ids := ids || array(select g from generate_series(first, first + least(100, count - cardinality(ids)) - 1) g);
    end loop;
    select array_agg(j.n::integer order by j.n),
           array_agg(coalesce(j.e ->> 'lane', '') order by j.n) filter (where a.lanes),
           array_agg((j.e ->> 'delay')::float8 order by j.n) filter (where a.delays),
           array_agg(extract(epoch from (j.e ->> 'at')::timestamptz)::float8 order by j.n) filter (where a.ats),
           array_agg(coalesce(j.e ->> 'arguments', '{}') order by j.n),
           array_agg(j.e ->> 'cause' order by j.n) filter (where a.causes),
           array_agg(j.e ->> 'name' order by j.n), array_agg(coalesce(j.e ->> 'queue', 'default') order by j.n),
           array_agg(coalesce((j.e ->> 'priority')::integer, 50) order by j.n),
           array_agg(array_position(array['block', 'skip', 'park'], coalesce(j.e ->> 'on_failure', 'block')) - 1 order by j.n),
           array_agg(coalesce((j.e ->> 'coalesce')::boolean, false) order by j.n),
           array_agg(coalesce((j.e ->> 'keep_result')::float8, 3600) order by j.n),
           array_agg(case when json_array_length(j.e -> 'after') > 0
                          then (coalesce((j.e -> 'options')::jsonb, '{}') || jsonb_build_object(
                              'after', j.e -> 'after', 'if_failed', coalesce(j.e ->> 'if_failed', 'cancel')))::text
                          else coalesce((j.e -> 'options')::text, '') end order by j.n),
           array_agg(case u.count when 1 then u.uses -> 0 ->> 0 end order by j.n),
           array_agg(case u.count when 1 then (u.uses -> 0 ->> 1)::integer end order by j.n),
           array_agg(case u.count when 1 then (u.uses -> 0 ->> 2)::bigint end order by j.n),
           array_agg(case when u.count > 1 then u.uses::text end order by j.n),
           array_agg(coalesce(u.paced, false) order by j.n),
           array_agg((j.e -> 'hooks')::text order by j.n) filter (where a.hooks),
           array_agg(nullif(j.e ->> 'key', '') order by j.n) filter (where a.keys),
           array_agg(coalesce((j.e ->> 'keep_key')::float8, 86400) order by j.n) filter (where a.keys),
           array_agg(case when json_array_length(j.e -> 'after') > 0
                          then translate((j.e -> 'after')::text, '[] ', '{}') end order by j.n) filter (where a.afters),
           array_agg(array_position(array['cancel', 'park', 'run'], coalesce(j.e ->> 'if_failed', 'cancel')) - 1 order by j.n)
               filter (where a.afters),
           array_agg((j.e ->> 'expires')::float8 order by j.n) filter (where a.expires),
           array_agg(extract(epoch from (j.e ->> 'expires_at')::timestamptz)::float8 order by j.n) filter (where a.expire_ats)
    into new_jobs.kinds, new_jobs.lanes, new_jobs.delays, new_jobs.ats, new_jobs.arguments, new_jobs.causes, new_jobs.names,
         new_jobs.queues, new_jobs.priorities, new_jobs.on_failures, new_jobs.coalesces, new_jobs.keeps, new_jobs.options,
         new_jobs.use_keys, new_jobs.use_mosts, new_jobs.use_pers, new_jobs.uses, new_jobs.paced, new_jobs.hooks,
         new_jobs.keys, new_jobs.keep_keys, new_jobs.afters, new_jobs.if_faileds, new_jobs.expires, new_jobs.expire_ats
    from json_array_elements(p_jobs) with ordinality as j (e, n)
    cross join (
        select bool_or(a.e ->> 'lane' <> '') as lanes, bool_or((a.e ->> 'delay')::numeric > 0) as delays,
               bool_or(a.e ->> 'at' is not null) as ats, bool_or(a.e -> 'cause' is not null) as causes,
               bool_or(json_array_length(a.e -> 'hooks') > 0) as hooks, bool_or(a.e ->> 'key' <> '') as keys,
               bool_or(json_array_length(a.e -> 'after') > 0) as afters, bool_or(a.e ->> 'expires' is not null) as expires,
               bool_or(a.e ->> 'expires_at' is not null) as expire_ats
        from json_array_elements(p_jobs) as a (e)) a
    cross join lateral (
        select json_agg(json_build_array(l ->> 0, (l ->> 1)::integer, round((l ->> 2)::numeric * 1000000)::bigint)
                        order by (l ->> 0) collate "C") as uses,
               count(*) as count, bool_or(round((l ->> 2)::numeric * 1000000) > 0) as paced
        from json_array_elements(j.e -> 'limits') l) u;
    new_jobs.ids := ids;
    created := array_fill(true, array[count]);
    if new_jobs.keys is not null then
        holders := interlock.job_enqueue_keyed(p_namespace, new_jobs, false, p_clock);
        select array_agg(coalesce(u.holder, u.id) order by u.n), array_agg(coalesce(u.holder = u.id, true) order by u.n)
        into ids, created
        from unnest(ids, holders) with ordinality as u (id, holder, n);
    elsif count > 0 then
        perform interlock.job_enqueue(p_namespace, new_jobs, null, p_clock);
    end if;
end
$$;
