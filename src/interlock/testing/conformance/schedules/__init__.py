"""Schedules: the port, and the API."""
