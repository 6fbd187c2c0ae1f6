select interlock.job_hand_back($1, $2, $3, $4, $5, $6)
