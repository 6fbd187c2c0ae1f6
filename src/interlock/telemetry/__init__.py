"""Log events and metrics. Keys are never labels."""
