select returned, blocked from interlock.job_hand_back($1, $2, $3, $4, $5, $6)
