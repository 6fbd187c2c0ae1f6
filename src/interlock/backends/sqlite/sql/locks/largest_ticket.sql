select max(ticket) from interlock_waiter where ticket between :first and :last
