"""The waiters of this process, until their turn comes.

A message from the store wakes only the waiter that it names. Messages are hints, so one statement for all waiters also
polls the store: when a holder may have died, and at the latest every few seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.leases import Turns
    from interlock.ports.locks import Granted
    from interlock.store_client import Component, StoreClient

    class Queueing(Protocol):
        """A port with queues."""

        async def turns(self, session: str, owners: Sequence[str]) -> Turns: ...


__all__ = ["PendingWait", "WaitQueue"]

_log = logging.getLogger("interlock.leases")
_MIN_PAUSE = 0.02
_MAX_EARLY = 1024


class PendingWait:
    """One waiter, which sleeps until it is woken."""

    __slots__ = ("_sleeper", "_woken", "first_time", "granted")

    def __init__(self, *, woken: bool) -> None:
        self.first_time = True
        self.granted: tuple[float, Granted] | None = None
        """The key, if it was handed over directly, with the time from which its lease counts."""
        self._woken = woken
        self._sleeper: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Wake this waiter, because its turn may have come."""
        self._woken = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def turn(self, wait: float | None) -> bool:
        """Sleep until woken; False if the time to wait ran out first."""
        if not self._woken:
            self._sleeper = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(wait):
                    await self._sleeper
            except TimeoutError:
                return self._woken
            finally:
                self._sleeper = None
        self._woken = False
        return True


class WaitQueue:
    """The waiters of one engine."""

    def __init__(self, store_client: StoreClient, component: Component, store: Queueing) -> None:
        self._store_client = store_client
        self._component = component
        self._store = store
        self._interval = store_client.settings.recheck_interval
        self._monotonic = store_client.clock.monotonic
        self.alarms = 0
        """How often all waiters were woken, because messages may have been missed."""
        self._waits: dict[str, PendingWait] = {}
        self._early: dict[str, None] = {}
        self._poll_at = 0.0
        self._rescheduled = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None

    def enter(self, owner: str, poll_after: float, alarms: int) -> PendingWait:
        """Add a waiter, or return its existing entry. A message that came before is not missed.

        ``alarms`` is :attr:`alarms` as of before the waiter asked. If all were woken since, so is this one: its turn
        may have come before this process received messages.
        """
        wait = self._waits.get(owner)
        if wait is not None:
            wait.first_time = False
            self.poll_within(poll_after)
            return wait
        early = owner in self._early
        self._early.pop(owner, None)
        wait = self._waits[owner] = PendingWait(woken=early or alarms != self.alarms)
        if len(self._waits) == 1:
            self._store_client.watch(self._component, waiting=True)
            self._poll_at = self._monotonic() + self._interval
            self._poller = asyncio.create_task(self._poll(), name="interlock-wait-queue")
        self.poll_within(poll_after)
        return wait

    def leave(self, owner: str) -> None:
        """Remove a waiter, if it is there."""
        if self._waits.pop(owner, None) is not None and not self._waits:
            self._store_client.watch(self._component, waiting=False)
            if self._poller is not None:
                self._poller.cancel()
                self._poller = None

    def wake(self, owner: str | None) -> None:
        """Wake the waiter whose turn may have come, or all waiters."""
        if owner is None:
            self.alarms += 1
            for wait in self._waits.values():
                wait.wake()
            return
        wait_of_owner = self._waits.get(owner)
        if wait_of_owner is not None:
            wait_of_owner.wake()
            return
        # The message overtook the answer to its request: keep it until the waiter is added.
        self._early[owner] = None
        while len(self._early) > _MAX_EARLY:
            del self._early[next(iter(self._early))]

    def hand_over(self, owner: str, sent: float, granted: Granted) -> None:
        """Give a waiter the key, as of ``sent``. A waiter that is not added yet will ask, and is granted it then."""
        wait = self._waits.get(owner)
        if wait is not None:
            wait.granted = (sent, granted)
        self.wake(owner)

    def poll_within(self, seconds: float) -> None:
        """Poll the store within so many seconds."""
        at = self._monotonic() + max(seconds, _MIN_PAUSE)
        if at < self._poll_at:
            self._poll_at = at
            self._rescheduled.set()

    async def _poll(self) -> None:
        while True:
            self._rescheduled.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._poll_at - self._monotonic())):
                    await self._rescheduled.wait()
                    continue
            self._poll_at = self._monotonic() + self._interval
            try:
                turns = await self._store.turns(self._store_client.session.id, list(self._waits))
            except Exception as error:  # noqa: BLE001 - the waiters need the next poll after any error
                emit(_log, logging.WARNING, "wait_poll_failed", error=repr(error))
                continue
            for owner in turns.owners:
                if owner in self._waits:
                    self.wake(owner)
            self.poll_within(turns.recheck_in)
