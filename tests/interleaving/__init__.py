"""Two operations of the PostgreSQL job store, one standing still at every step in turn while the other one runs."""
