"""Keeps leases alive, and ends them in time when it cannot.

All leases of a process that are due are renewed together, a thousand in one operation. A lease whose renewal does not
succeed is lost a margin before the store would let somebody else in, measured from when the last good request was sent.

There is no timer per lease, so that taking and releasing one costs next to nothing: a round looks at all of them, and
sets the time of the next one by what it saw. What is new since then is not due before a third of its ttl, and no round
is further away than a tenth of the shortest ttl, or than the time by which the session must have been renewed.
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

_LEAST_PAUSE = 0.01
_MOST_AT_ONCE = 1000  # so that many leases hold nobody up, in no store
O = TypeVar("O", bound=OwnedLease)  # noqa: E741


@lru_cache(256)
def schedule(ttl: float) -> tuple[float, float]:
    """How long after it was asked for a lease is renewed, and when its holder is stopped if that does not work.

    The holder is stopped a margin before the lease's end.
    """
    margin = min(max(1.0, ttl * 0.05), ttl / 4)
    return ttl / 3, ttl - margin


class LeaseRenewer(Generic[O]):
    """Renews and ends what one engine holds. ``failed`` hears of every renewal that did not get through."""

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
        """Look after a lease granted by a request sent at ``sent``."""
        ttl = lease.want.ttl
        if ttl == math.inf:  # it ends with its session, and needs nothing of its own
            ttl = self._session_ttl
        else:
            renew_after, stop_after = schedule(ttl)
            lease.renew_at = sent + renew_after
            lease.deadline = sent + stop_after
        if ttl < self._shortest:
            self._shortest = ttl
            self._next_round(min(ttl / 10, lease.session.deadline - sent))

    def renew_all(self) -> None:
        """Renew every lease now, to see whether it is still ours."""
        for lease in self._leases():
            if lease.want.ttl == math.inf:
                continue
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
        due: list[O] = []
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
            shortest = min(shortest, lease.want.ttl if lease.want.ttl < math.inf else self._session_ttl)
        self._shortest = shortest
        if shortest < math.inf:
            self._next_round(min(due_at - now, shortest / 10))
        for first in range(0, len(due), _MOST_AT_ONCE):
            task = asyncio.ensure_future(self._renew(due[first : first + _MOST_AT_ONCE]))
            self._renewals[task] = None
            task.add_done_callback(self._renewals.pop)

    async def _renew(self, leases: list[O]) -> None:
        sent = self._monotonic()
        asked = {lease.owner: lease for lease in leases if not lease.released}
        if not asked:
            return
        try:
            held = [Held(lease.key, lease.owner, lease.want.ttl) for lease in asked.values()]
            answers = await self._store.renew(held)
        except Exception as error:  # noqa: BLE001 - whatever it was, it is tried again until the deadline
            for lease in asked.values():
                self._failed(lease, error)
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
