"""The cost of limits."""
