select interlock.event_accept($1, row($2, $3, $4, $5, $6, $7, $8, $9, $10, $11)::interlock.new_events, row(
    $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29)::interlock.new_jobs, $30)
