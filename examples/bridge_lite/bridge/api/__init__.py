"""The re-evaluation API."""
