-- Park the unreadable ones of these jobs that no live worker can read, and name the versions that could not.
create or replace function interlock.job_park_unreadable(p_namespace text, p_ids bigint[], p_now bigint) returns void
language sql volatile
as $$
    update interlock.job j
    set parked = 'No live worker can read its arguments; refused by '
                 || (select string_agg('version ' || (v ->> 1) || ' (' || (v ->> 0) || ')', ', ')
                     from jsonb_array_elements(j.unreadable_by::jsonb) v)
                 || ': ' || j.error
    where j.id = any (p_ids) and j.unreadable and j.parked is null
      and not exists (
          select from interlock.job_worker w
          join interlock.session s on s.namespace = w.namespace and s.id = w.session
          where w.namespace = p_namespace and s.expires_at > to_timestamp(p_now / 1e6)
            and substr(j.pool, length(p_namespace) + 2) = any (w.queues) and w.handler_versions ? j.name
            and position('"' || (w.handler_versions -> j.name ->> 0) || '"' in j.unreadable_by) = 0)
$$;
