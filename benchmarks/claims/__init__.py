"""Claims compared with the bare statement."""
