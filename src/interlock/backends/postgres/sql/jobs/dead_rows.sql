select c.relname::text,
       case when current_setting('server_version_num')::integer >= 170000 then has_table_privilege(c.oid, 'MAINTAIN')
            else pg_has_role(c.relowner, 'USAGE') end
from pg_class c
where c.relnamespace = 'interlock'::regnamespace and c.relname = any ($1::text[])
  and pg_stat_get_dead_tuples(c.oid) >= $2::bigint
order by c.relname
