"""What the events port and ``app.events`` promise."""
