"""Records against the statements and the mapper that could replace them, on PostgreSQL."""
