"""A live story: intents flow, reviewers correct them, workers are killed, and at the end everything is audited."""
