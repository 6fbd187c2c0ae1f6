"""Fixtures of the outage tests."""

from tests.backends.outages import events, kind, outage, proxy, server, url

__all__ = ["events", "kind", "outage", "proxy", "server", "url"]
