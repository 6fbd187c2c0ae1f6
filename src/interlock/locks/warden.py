"""Keeps leases alive, and ends them in time when it cannot.

All leases of a process that are due are renewed in one operation. A lease whose renewal does not succeed is lost
a margin before the store would let somebody else in, measured from when the last good request was sent.

There is no timer per lease, so that taking and releasing one costs next to nothing: a round looks at all of them, and
sets the time of the next one by what it saw. What is new since then is not due before a third of its ttl, and no round
is further away than a tenth of the shortest ttl, or than the time by which the session must have been renewed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from functools import lru_cache
from typing import TYPE_CHECKING

from interlock.ports.locks import Held
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlock.clock import Clock
    from interlock.locks.lease import Lease
    from interlock.ports.locks import LockStore

__all__ = ["Warden", "schedule"]

_log = logging.getLogger("interlock.locks")
_LEAST_PAUSE = 0.01


@lru_cache(256)
def schedule(ttl: float) -> tuple[float, float]:
    """How long after it was asked for a lease is renewed, and when its holder is stopped if that does not work.

    The holder is stopped a margin before the lease's end.
    """
    margin = min(max(1.0, ttl * 0.05), ttl / 4)
    return ttl / 3, ttl - margin


class Warden:
    """Renews and ends the leases of one engine."""

    def __init__(
        self,
        store: LockStore,
        clock: Clock,
        leases: Callable[[], Iterable[Lease]],
        lose: Callable[[Lease, str, str], None],
    ) -> None:
        self._store = store
        self._monotonic = clock.monotonic
        self._leases = leases
        self._lose = lose
        self._shortest = math.inf
        self._round: asyncio.TimerHandle | None = None
        self._renewals: dict[asyncio.Task[None], None] = {}  # ordered, so that a seed replays exactly

    def admit(self, lease: Lease, sent: float) -> None:
        """Look after a lease granted by a request sent at ``sent``."""
        ttl = lease.want.ttl
        renew_after, stop_after = schedule(ttl)
        lease.renew_at = sent + renew_after
        lease.deadline = sent + stop_after
        if ttl < self._shortest:
            self._shortest = ttl
            self._next_round(min(ttl / 10, lease.session.deadline - sent))

    def renew_all(self) -> None:
        """Renew every lease now, to see whether it is still ours."""
        for lease in self._leases():
            lease.renew_at = 0.0
            self._next_round(0)

    async def stop(self) -> None:
        """Stop renewing."""
        if self._round is not None:
            self._round.cancel()
        for task in list(self._renewals):
            task.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    def _next_round(self, in_seconds: float) -> None:
        """Go round in so many seconds at the latest."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(in_seconds, _LEAST_PAUSE)
        if self._round is not None:
            if self._round.when() <= at:
                return
            self._round.cancel()
        self._round = loop.call_at(at, self._go_round)

    def _go_round(self) -> None:
        self._round = None
        now = self._monotonic()
        shortest = due_at = math.inf
        due: list[Lease] = []
        for lease in self._leases():
            if now >= lease.deadline:
                self._lose(lease, "expired", "it could not be renewed in time")
                continue
            if now >= lease.session.deadline:  # in case the heartbeat itself is silent
                self._lose(lease, "session", "its process's session was not renewed in time")
                continue
            if now >= lease.renew_at:
                due.append(lease)
                # Unless the renewal says otherwise before, the next thing to happen is the end.
                lease.renew_at = lease.deadline
            due_at = min(due_at, lease.renew_at, lease.session.deadline)
            shortest = min(shortest, lease.want.ttl)
        self._shortest = shortest
        if shortest < math.inf:
            self._next_round(min(due_at - now, shortest / 10))
        if due:
            task = asyncio.ensure_future(self._renew(due))
            self._renewals[task] = None
            task.add_done_callback(self._renewals.pop)

    async def _renew(self, leases: list[Lease]) -> None:
        sent = self._monotonic()
        asked = {lease.owner: lease for lease in leases if not lease.released}
        if not asked:
            return
        try:
            answers = await self._store.renew(
                [Held(lease.key, lease.owner, lease.want.ttl) for lease in asked.values()]
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again until the deadline
            for lease in asked.values():
                emit(_log, logging.WARNING, "lock_renewal_failed", key=lease.key, error=str(error))
                again_in = min(1.0, lease.want.ttl / 20)
                lease.renew_at = self._monotonic() + again_in
                self._next_round(again_in)
            return
        for owner, expires_at, why in answers:
            lease = asked[owner]
            if expires_at is None:
                self._lose(lease, "taken", why)
            else:
                lease.store_expiry = expires_at
                self.admit(lease, sent)
