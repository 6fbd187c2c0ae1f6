"""Where this process's waiters sit until it is their turn.

A message from the store wakes just the waiter it names. As messages are only hints, one statement for the whole
room looks again now and then: when a holder may have died, and at the latest every few seconds.
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
    from interlock.store_client import Part, StoreClient

    class Queueing(Protocol):
        """A port that people queue at."""

        async def turns(self, session: str, owners: Sequence[str]) -> Turns: ...


__all__ = ["PendingWait", "WaitQueue"]

_log = logging.getLogger("interlock.leases")
_LEAST_PAUSE = 0.02
_MOST_EARLY = 1024


class PendingWait:
    """One waiter's place: something to sleep on until called."""

    __slots__ = ("_called", "_sleeper", "first_time", "handed")

    def __init__(self, *, called: bool) -> None:
        self.first_time = True
        self.handed: tuple[float, Granted] | None = None
        """The key itself, with the time from which its lease counts."""
        self._called = called
        self._sleeper: asyncio.Future[None] | None = None

    def call(self) -> None:
        """It may be this waiter's turn."""
        self._called = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def turn(self, wait: float | None) -> bool:
        """Sleep until called; False if the time to wait ran out first."""
        if not self._called:
            self._sleeper = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(wait):
                    await self._sleeper
            except TimeoutError:
                return self._called
            finally:
                self._sleeper = None
        self._called = False
        return True


class WaitQueue:
    """The waiters of one engine."""

    def __init__(self, store_client: StoreClient, part: Part, store: Queueing) -> None:
        self._store_client = store_client
        self._part = part
        self._store = store
        self._recheck = store_client.settings.recheck_interval
        self._monotonic = store_client.clock.monotonic
        self._seats: dict[str, PendingWait] = {}
        self._early: dict[str, None] = {}
        self._look_at = 0.0
        self._moved = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    def enter(self, owner: str, look_again: float) -> PendingWait:
        """Take a seat, or keep the one taken before; a call that came before is not missed."""
        seat = self._seats.get(owner)
        if seat is not None:
            seat.first_time = False
            self.look_in(look_again)
            return seat
        early = owner in self._early
        self._early.pop(owner, None)
        seat = self._seats[owner] = PendingWait(called=early)
        if len(self._seats) == 1:
            self._store_client.watch(self._part, waiting=True)
            self._look_at = self._monotonic() + self._recheck
            self._watch = asyncio.create_task(self._look_out(), name="interlock-waitroom")
        self.look_in(look_again)
        return seat

    def leave(self, owner: str) -> None:
        """Give up the seat, if there is one."""
        if self._seats.pop(owner, None) is not None and not self._seats:
            self._store_client.watch(self._part, waiting=False)
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def call(self, owner: str | None) -> None:
        """Wake the waiter whose turn it may be, or all of them."""
        if owner is None:
            for seat in self._seats.values():
                seat.call()
            return
        seat_of_owner = self._seats.get(owner)
        if seat_of_owner is not None:
            seat_of_owner.call()
            return
        # The message overtook the answer to the request it is about: keep it until the seat is taken.
        self._early[owner] = None
        while len(self._early) > _MOST_EARLY:
            del self._early[next(iter(self._early))]

    def hand(self, owner: str, sent: float, granted: Granted) -> None:
        """Give the key to a waiter, as of ``sent``; one that is not seated yet will ask, and hears it then."""
        seat = self._seats.get(owner)
        if seat is not None:
            seat.handed = (sent, granted)
        self.call(owner)

    def look_in(self, seconds: float) -> None:
        """Make sure that the room looks again within so many seconds."""
        at = self._monotonic() + max(seconds, _LEAST_PAUSE)
        if at < self._look_at:
            self._look_at = at
            self._moved.set()

    async def _look_out(self) -> None:
        while True:
            self._moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, self._look_at - self._monotonic())):
                    await self._moved.wait()
                    continue
            self._look_at = self._monotonic() + self._recheck
            try:
                turns = await self._store.turns(self._store_client.session.id, list(self._seats))
            except Exception as error:  # noqa: BLE001 - whatever it was, those who wait need the next look
                emit(_log, logging.WARNING, "look_failed", error=repr(error))
                continue
            for owner in turns.owners:
                if owner in self._seats:
                    self.call(owner)
            self.look_in(turns.look_again)
