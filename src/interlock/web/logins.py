"""Failed logins: counted, logged within bounds, and slowed down per address."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from interlock.telemetry.budget import LogBudget
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.telemetry.web import WebMetrics

__all__ = ["Logins"]

_log = logging.getLogger("interlock.web")
_FREE = 5
"""Failed attempts of an address before it is slowed down."""
_LONGEST = 10.0
_FORGOTTEN_AFTER = 900.0
_MAX_ADDRESSES = 1000


class _Failures(NamedTuple):
    number: int
    last: float


class Logins:
    """Failed logins of one web app.

    After five failures, an address has to wait before its next attempt is checked: one second, then two, and so on
    up to ten. It is forgotten after 15 minutes without a failure. At most 1,000 addresses are remembered; beyond that
    the one whose last failure is oldest is forgotten.
    """

    def __init__(self, metrics: WebMetrics, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._monotonic = monotonic
        self._budget = LogBudget(monotonic=monotonic)
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def seconds_to_wait(self, client: str) -> float:
        """How long until the next attempt of a client is checked; 0 for immediately."""
        found = self._failures.get(_network(client))
        if found is None or found.number <= _FREE:
            return 0.0
        since = self._monotonic() - found.last
        if since >= _FORGOTTEN_AFTER:
            return 0.0
        return max(0.0, min(_LONGEST, 2.0 ** min(found.number - _FREE - 1, 10)) - since)

    def failed(self, client: str, how: str) -> None:
        """Record a failed attempt; ``how`` is "password" or "token"."""
        now = self._monotonic()
        network = _network(client)
        before = self._failures.pop(network, None)
        if before is None or now - before.last >= _FORGOTTEN_AFTER:
            before = _Failures(0, now)
        self._failures[network] = _Failures(before.number + 1, now)
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)
        self._metrics.login_failed(how)
        suppressed = self._budget.admit()
        if suppressed is not None:
            emit(_log, logging.WARNING, "web_login_failed", client=client[:64], how=how, suppressed=suppressed)

    def slowed(self) -> None:
        """Record an attempt that was not checked."""
        self._metrics.login_failed("slowed")


def _network(client: str) -> str:
    """A client's address, or its /64 network for IPv6, because a client can choose any address in it."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
