-- Accept one job from any program, inside its own transaction: select interlock.enqueue('report', '{"account": "a1"}').
-- p_limits: [[key, max_count, seconds]], 0 seconds for slots. Returns the job's ID. Runs with the rights of the schema's owner, so
-- that a role needs nothing but EXECUTE on it to enqueue, and only values that it has checked are stored.
create or replace function interlock.enqueue(
    p_name text, p_arguments jsonb default '{}', p_queue text default 'default', p_lane text default '',
    p_priority integer default 50, p_delay double precision default 0, p_at timestamptz default null,
    p_limits jsonb default '[]', p_on_failure text default 'block', p_coalesce boolean default false,
    p_keep_result double precision default 3600, p_options jsonb default '{}', p_namespace text default 'default'
) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    year constant double precision := 366 * 24 * 3600;
    new_id bigint := nextval('interlock.job_id');
    on_failure integer := array_position(array['block', 'skip', 'park'], p_on_failure) - 1;
    wrong text;
    uses jsonb;
begin
    wrong := case
        when (p_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$') is not true then 'p_name'
        when (p_queue ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$') is not true then 'p_queue'
        when (jsonb_typeof(p_arguments) = 'object' and octet_length(p_arguments::text) <= 1048576) is not true
            then 'p_arguments'
        when (octet_length(p_lane) <= 512) is not true then 'p_lane'
        when (p_priority between 0 and 100) is not true then 'p_priority'
        when (p_delay between 0 and year) is not true then 'p_delay'
        when (p_at between '0001-01-02 00:00+00' and '9999-12-30 00:00+00') is false then 'p_at'
        when on_failure is null then 'p_on_failure'
        when (p_coalesce and p_lane = '') is not false then 'p_coalesce'
        when (p_keep_result between 0 and year) is not true then 'p_keep_result'
        when (jsonb_typeof(p_options) = 'object') is not true then 'p_options'
        when coalesce(p_namespace, '') = '' then 'p_namespace'
        when (jsonb_typeof(p_limits) = 'array') is not true then 'p_limits' end;
    if wrong is null and exists (
        select from jsonb_array_elements(p_limits) u
        where (jsonb_typeof(u) = 'array' and jsonb_array_length(u) = 3 and jsonb_typeof(u -> 0) = 'string'
               and octet_length(u ->> 0) between 1 and 512 and (u ->> 1) ~ '^([1-9][0-9]{0,3}|10000)$'
               and jsonb_typeof(u -> 2) = 'number' and (u ->> 2)::numeric between 0 and year) is not true)
       or (select count(*) > count(distinct u ->> 0) from jsonb_array_elements(
               case jsonb_typeof(p_limits) when 'array' then p_limits else '[]' end) u)
    then
        wrong := 'p_limits';
    end if;
    if wrong is not null then
        raise exception 'Invalid % of job %.', wrong, coalesce(p_name, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Names have 1 to 63 letters, digits, dots, dashes and underscores, a letter or digit first; '
                         'arguments and options are objects, limits [[key, max_count, seconds]]; spans are seconds up to a year.';
    end if;
    select jsonb_agg(jsonb_build_array(u ->> 0, (u ->> 1)::integer, round((u ->> 2)::numeric * 1000000)::bigint)
                     order by (u ->> 0) collate "C")
    into uses from jsonb_array_elements(p_limits) u;
    perform interlock.job_enqueue(p_namespace, row(
        array[new_id], array[1], array[p_lane], array[p_delay], array[extract(epoch from p_at)::float8],
        array[p_arguments::text], array[p_name], array[p_queue], array[p_priority], array[on_failure], array[p_coalesce],
        array[p_keep_result], array[p_options::text],
        array[case when jsonb_array_length(uses) = 1 then uses -> 0 ->> 0 end],
        array[case when jsonb_array_length(uses) = 1 then (uses -> 0 ->> 1)::integer end],
        array[case when jsonb_array_length(uses) = 1 then (uses -> 0 ->> 2)::bigint end],
        array[case when jsonb_array_length(uses) > 1 then uses::text end],
        array[exists (select from jsonb_array_elements(uses) u where (u ->> 2)::bigint > 0)], null, null)::interlock.new_jobs, null, null);
    return new_id;
end
$$;
