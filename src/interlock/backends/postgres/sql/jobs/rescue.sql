select id, name, session, crashes, quarantined, half from interlock.job_rescue($1, $2, $3, $4)
