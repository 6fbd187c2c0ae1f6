"""Claims against the raw statement."""
