"""What a store of jobs, and those who enqueue and run them, promise."""
