update interlock_job set parked = ? where id = ? and refused
