select interlock.event_prune($1, $2, $3)
