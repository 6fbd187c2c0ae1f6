"""Fixtures of these tests."""

from tests.backends.others import other, store
from tests.backends.outages import events, kind, outage, proxy, server, url

__all__ = ["events", "kind", "other", "outage", "proxy", "server", "store", "url"]
