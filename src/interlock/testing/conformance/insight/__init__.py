"""Insight: reading many items at once."""
