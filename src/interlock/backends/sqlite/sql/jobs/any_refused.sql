select 1 from interlock_job where refused limit 1
