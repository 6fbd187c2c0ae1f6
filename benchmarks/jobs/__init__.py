"""Jobs: how fast durable queues drain, and what it costs, by Interlock and by its peers."""
