"""Renewal of leases, and their timely end when they cannot be renewed.

All leases of a process that are due are renewed together, a thousand in one operation. A lease that cannot be renewed
is lost a margin before the store would grant it to another owner, measured from the last successful request.

Leases have no timers of their own, so acquiring and releasing one costs almost nothing. A round checks all leases and
schedules the next round. A newer lease is not due before a third of its ttl, and no round is further away than a tenth
of the shortest ttl or than the deadline of the session.
"""

from __future__ import annotations

import asyncio
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from interlock.leases.owned_lease import OwnedLease
from interlock.ports.leases import Held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from interlock.clock import Clock
    from interlock.ports.leases import Renewed

    class Renewing(Protocol):
        """A port whose leases are renewed."""

        async def renew(self, leases: Sequence[Held]) -> Sequence[Renewed]: ...


__all__ = ["LeaseRenewer", "schedule"]

_MIN_PAUSE = 0.01
_MAX_BATCH = 1000  # so that renewing many leases delays no other operation in any store
O = TypeVar("O", bound=OwnedLease)  # noqa: E741


@lru_cache(256)
def schedule(ttl: float) -> tuple[float, float]:
    """Return how long after its request a lease is renewed, and when its holder is stopped if that fails.

    The holder is stopped a margin before the lease ends.
    """
    margin = min(max(1.0, ttl * 0.05), ttl / 4)
    return ttl / 3, ttl - margin


class LeaseRenewer(Generic[O]):
    """Renews and ends the leases of one engine. ``failed`` is called for every renewal that did not reach the store."""

    def __init__(
        self,
        store: Renewing,
        clock: Clock,
        session_ttl: float,
        leases: Callable[[], Iterable[O]],
        lose: Callable[[O, str, str], None],
        failed: Callable[[O, Exception], None],
    ) -> None:
        self._store = store
        self._failed = failed
        self._session_ttl = session_ttl
        self._monotonic = clock.monotonic
        self._leases = leases
        self._lose = lose
        self._shortest = math.inf
        self._round: asyncio.TimerHandle | None = None
        self._renewals: dict[asyncio.Task[None], None] = {}  # ordered, so that a seed replays exactly

    def admit(self, lease: O, sent: float) -> None:
        """Schedule the renewal of a lease that was granted by a request sent at ``sent``."""
        ttl = lease._request.ttl
        if ttl == math.inf:  # it ends with its session and is not renewed
            ttl = self._session_ttl
        else:
            renew_after, stop_after = schedule(ttl)
            lease._renew_at = sent + renew_after
            lease._deadline = sent + stop_after
        if ttl < self._shortest:
            self._shortest = ttl
            self._next_round(min(ttl / 10, lease._session.deadline - sent))

    def renew_all(self) -> None:
        """Renew every lease now, to find out which of them are still held."""
        for lease in self._leases():
            if lease._request.ttl == math.inf:
                continue
            lease._renew_at = 0.0
            self._next_round(0)

    async def stop(self) -> None:
        """Stop renewing."""
        if self._round is not None:
            self._round.cancel()
        for task in list(self._renewals):
            task.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    def _next_round(self, in_seconds: float) -> None:
        """Run the next round within so many seconds."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(in_seconds, _MIN_PAUSE)
        if self._round is not None:
            if self._round.when() <= at:
                return
            self._round.cancel()
        self._round = loop.call_at(at, self._run_round)

    def _run_round(self) -> None:
        self._round = None
        now = self._monotonic()
        shortest = due_at = math.inf
        due: list[O] = []
        for lease in self._leases():
            if now >= lease._deadline:
                self._lose(lease, "expired", "it could not be renewed in time")
                continue
            if now >= lease._session.deadline:  # in case the heartbeat itself has stopped
                self._lose(lease, "session", "its process's session was not renewed in time")
                continue
            if now >= lease._renew_at:
                due.append(lease)
                # Unless the renewal succeeds, the next event is the deadline.
                lease._renew_at = lease._deadline
            due_at = min(due_at, lease._renew_at, lease._session.deadline)
            shortest = min(shortest, lease._request.ttl if lease._request.ttl < math.inf else self._session_ttl)
        self._shortest = shortest
        if shortest < math.inf:
            self._next_round(min(due_at - now, shortest / 10))
        for first in range(0, len(due), _MAX_BATCH):
            task = asyncio.ensure_future(self._renew(due[first : first + _MAX_BATCH]))
            self._renewals[task] = None
            task.add_done_callback(self._renewals.pop)

    async def _renew(self, leases: list[O]) -> None:
        sent = self._monotonic()
        asked = {lease.owner: lease for lease in leases if not lease._released}
        if not asked:
            return
        try:
            held = [Held(lease.key, lease.owner, lease._request.ttl) for lease in asked.values()]
            answers = await self._store.renew(held)
        except Exception as error:  # noqa: BLE001 - any error is retried until the deadline
            for lease in asked.values():
                self._failed(lease, error)
                again_in = min(1.0, lease._request.ttl / 20)
                lease._renew_at = self._monotonic() + again_in
                self._next_round(again_in)
            return
        for owner, expires_at, why in answers:
            lease = asked[owner]
            if expires_at is None:
                self._lose(lease, "taken", why)
            else:
                lease._store_expiry = expires_at
                self.admit(lease, sent)
