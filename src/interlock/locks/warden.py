"""Keeps leases alive, and ends them in time when it cannot.

All leases of a process that are due are renewed in one operation. A lease whose renewal does not succeed is lost
a margin before the store would let somebody else in, measured from when the last good request was sent.

Leases stand in coarse slots of time, one timer per slot, so that taking and releasing a lease costs no timer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.ports.locks import Held
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.clock import Clock
    from interlock.locks.lease import Lease
    from interlock.ports.locks import LockStore

__all__ = ["Warden", "margin"]

_log = logging.getLogger("interlock.locks")
_SLOTS_PER_SECOND = 20
_HORIZON = 10.0  # nothing is placed further ahead, so there are never many slots


def margin(ttl: float) -> float:
    """How long before a lease's end its holder is stopped."""
    return min(max(1.0, ttl * 0.05), ttl / 4)


class Warden:
    """Renews and ends the leases of one engine."""

    def __init__(self, store: LockStore, clock: Clock, lose: Callable[[Lease, str, str], None]) -> None:
        self._store = store
        self._monotonic = clock.monotonic
        self._lose = lose
        self._slots: dict[int, dict[Lease, None]] = {}  # ordered, so that a seed replays exactly
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewals: dict[asyncio.Task[None], None] = {}

    def admit(self, lease: Lease, sent: float) -> None:
        """Look after a lease granted, or renewed, by a request sent at ``sent``."""
        ttl = lease.ttl
        lease.renew_at = sent + ttl / 3
        lease.deadline = sent + ttl - margin(ttl)
        self._place(lease, lease.renew_at)

    def dismiss(self, lease: Lease) -> None:
        """Look after a lease no longer."""
        slot = self._slots.get(lease.place)
        if slot is not None:
            slot.pop(lease, None)

    async def stop(self) -> None:
        """Stop renewing."""
        for task in list(self._renewals):
            task.cancel()
        await asyncio.gather(*self._renewals, return_exceptions=True)

    def _place(self, lease: Lease, at: float) -> None:
        now = self._monotonic()
        if at > now + _HORIZON:
            at = now + _HORIZON
        place = int(at * _SLOTS_PER_SECOND) + 1
        slot = self._slots.get(place)
        if slot is None:
            slot = self._slots[place] = {}
            loop = self._loop or asyncio.get_running_loop()
            self._loop = loop
            loop.call_later(place / _SLOTS_PER_SECOND - now, self._open_slot, place)
        slot[lease] = None
        lease.place = place

    def _open_slot(self, place: int) -> None:
        now = self._monotonic()
        due: list[Lease] = []
        for lease in self._slots.pop(place):
            if now >= lease.deadline:
                self._lose(lease, "expired", "it could not be renewed in time")
            elif now >= lease.renew_at:
                due.append(lease)
                # Unless the renewal says otherwise before, the next thing to happen is the end.
                lease.renew_at = lease.deadline
                self._place(lease, lease.deadline)
            else:
                self._place(lease, lease.renew_at)
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
            answers = await self._store.renew([Held(lease.key, lease.owner, lease.ttl) for lease in asked.values()])
        except StoreUnavailableError as error:
            for lease in asked.values():
                emit(_log, logging.WARNING, "lock_renewal_failed", key=lease.key, error=str(error))
                self._again(lease, self._monotonic() + min(1.0, lease.ttl / 20))
            return
        for owner, expires_at, why in answers:
            lease = asked[owner]
            if lease.released or lease.lost_why:
                continue
            if expires_at is None:
                self._lose(lease, "taken", why)
            else:
                lease.store_expiry = expires_at
                self.dismiss(lease)
                self.admit(lease, sent)

    def _again(self, lease: Lease, at: float) -> None:
        if not lease.released and not lease.lost_why:
            self.dismiss(lease)
            lease.renew_at = at
            self._place(lease, min(at, lease.deadline))
