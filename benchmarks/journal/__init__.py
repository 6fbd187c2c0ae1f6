"""The journal on PostgreSQL: adding, sealing and verifying entries, and the share of an entry in a write."""
