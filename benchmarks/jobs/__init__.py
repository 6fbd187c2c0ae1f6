"""Jobs: how fast durable queues drain, and what that costs, for Interlock and its peers."""
