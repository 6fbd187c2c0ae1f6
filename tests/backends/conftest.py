"""Fixtures of the outage tests."""

from tests.backends.outages import database, events, outage, proxy, server

__all__ = ["database", "events", "outage", "proxy", "server"]
