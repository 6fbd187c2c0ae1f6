"""Fixtures of these tests."""

from tests.backends.others import other, store
from tests.backends.outages import databases, events, kind, outage, proxy, server, url

__all__ = ["databases", "events", "kind", "other", "outage", "proxy", "server", "store", "url"]
