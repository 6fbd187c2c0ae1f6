"""The promises of a store of jobs, and of the API that enqueues and runs them."""
