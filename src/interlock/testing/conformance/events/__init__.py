"""Events: the contract of the port, and ``app.events``."""
