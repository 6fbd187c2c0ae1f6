"""The promises of a store of pipelines, and of the API that runs them."""
