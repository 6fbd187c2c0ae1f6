"""The engine's way to the store: outlasts short outages, and leaves nothing behind.

An operation that fails may have taken effect all the same, or may still do so. Whatever it may have left in the store
is given up in the background, and if even that fails, as soon as the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from interlock.errors import StoreUnavailableError
from interlock.locks.eager import begun
from interlock.ports.locks import Want
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock.clock import Clock
    from interlock.locks.lease import Lease
    from interlock.locks.waitroom import Waitroom
    from interlock.ports.locks import Left, LockStore
    from interlock.sessions import SessionKeeper
    from interlock.settings import Settings

__all__ = ["Reach"]

_log = logging.getLogger("interlock.locks")
T = TypeVar("T")


class Reach:
    """Operations that may be repeated, and the work of cleaning up behind them."""

    def __init__(
        self, store: LockStore, keeper: SessionKeeper, room: Waitroom, settings: Settings, clock: Clock
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._room = room
        self._wait = settings.store_wait
        self._monotonic = clock.monotonic
        self._background: dict[asyncio.Task[None], None] = {}
        self._tidying = False
        self._tidy_rounds = 0
        self.closed = False
        self.owners: dict[str, Lease | None] = {}
        """Every owner this process answers for, with its lease once it has one. Whatever else the store holds in our
        session's name is a leftover."""

    async def repeat(self, operation: Callable[[], Awaitable[T]], since: float | None = None) -> T:
        """Do an operation, over and over while the store is away, in bounded time from ``since`` or from now."""
        give_up = (self._monotonic() if since is None else since) + self._wait
        pause = 0.02
        while True:
            try:
                return await operation()
            except StoreUnavailableError:
                self.suspect()
                if self.closed or self._monotonic() + pause >= give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    async def leave(self, want: Want) -> Left:
        """Give up a lease or a place in a queue, and call whoever is next if it is one of ours."""
        left = await self.repeat(lambda: self._store.leave(want))
        self._call_next(left)
        return left

    def let_go(self, want: Want) -> None:
        """Give up in the background whatever a request may have left in the store.

        It is on its way at once, before anything that is asked for after this. Until it is done the owner stays ours,
        so that nobody else tidies it away.
        """
        if not self.closed:
            self.owners.setdefault(want.owner, None)
            rest = begun(self._let_go(want))
            if rest is not None:
                self.spawn(rest)

    def suspect(self) -> None:
        """Something failed: look for what it left behind.

        Twice, as a request that was cut off may arrive after the store answers others again.
        """
        self._tidy_rounds = 2
        if not self._tidying and not self.closed:
            self._tidying = True
            self.spawn(self._tidy())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the background, and say so if it fails."""
        task = asyncio.get_running_loop().create_task(work)
        self._background[task] = None
        task.add_done_callback(self._reap)

    async def close(self) -> None:
        """Stop everything in the background: the session ends, and everything left with it."""
        self.closed = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _let_go(self, want: Want) -> None:
        try:
            await self.leave(want)
        except StoreUnavailableError:
            pass  # leave() has seen to it that we look again
        finally:
            self.owners.pop(want.owner, None)

    async def _tidy(self) -> None:
        try:
            while self._tidy_rounds:
                self._tidy_rounds -= 1
                await self._tidy_once()
                await asyncio.sleep(self._wait)
        finally:
            self._tidying = False

    async def _tidy_once(self) -> None:
        """Once the store is back, give up everything in our session's name that nobody here knows of."""
        while True:
            session = self._keeper.session
            try:
                for key, owner in await self._store.belongings(session.id):
                    if owner not in self.owners:
                        emit(_log, logging.INFO, "lock_tidied", key=key, owner=owner)
                        self._call_next(await self._store.leave(Want(key, owner, "", session.id, 1.0, 0, False)))
            except StoreUnavailableError:
                await asyncio.sleep(1.0)
            else:
                return

    def _call_next(self, left: Left) -> None:
        if left.next_owner in self.owners and self.owners[left.next_owner] is None:
            self._room.call(left.next_owner)

    def _reap(self, task: asyncio.Task[None]) -> None:
        del self._background[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.ERROR, "lock_background_failed", error=repr(error))
