-- What time it is, and whether there are other namespaces.
select interlock.micros(interlock.now_or($2)), exists (select from interlock.job_namespace n where n.namespace <> $1)
