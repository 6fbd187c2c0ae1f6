select id, name, session, crashes, quarantined from interlock.job_rescue($1, $2, $3, $4)
