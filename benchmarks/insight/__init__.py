"""Latency of the read side."""
