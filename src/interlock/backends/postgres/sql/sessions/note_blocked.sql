select interlock.session_note_blocked($1, $2, $3, $4, $5)
