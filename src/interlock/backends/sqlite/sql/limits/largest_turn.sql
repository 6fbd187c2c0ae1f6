select max(turn) from interlock_limit_reservation where turn between :first and :last
