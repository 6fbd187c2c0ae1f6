"""The suites for records."""
