"""Runs of the real engine in a simulated world."""
