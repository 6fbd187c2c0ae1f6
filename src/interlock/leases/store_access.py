"""An engine's way to the store: outlasts short outages, and leaves nothing behind.

An operation that fails may have taken effect all the same, or may still do so. Whatever it may have left in the store
is given up in the background, and if even that fails, as soon as the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.errors import StoreError, StoreUnavailableError
from interlock.leases.eager import begun
from interlock.store_client import repeat
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock.leases.backend import LeaseBackend, Request
    from interlock.leases.owned_lease import OwnedLease
    from interlock.leases.wait_queue import WaitQueue
    from interlock.store_client import StoreClient

__all__ = ["StoreAccess"]

_log = logging.getLogger("interlock.leases")
T = TypeVar("T")


W = TypeVar("W", bound="Request")
G = TypeVar("G", bound="OwnedLease")
L = TypeVar("L")


class StoreAccess(Generic[W, G, L]):
    """Operations that may be repeated, and the work of cleaning up behind them."""

    def __init__(self, store_client: StoreClient, custody: LeaseBackend[W, L], room: WaitQueue) -> None:
        self._store_client = store_client
        self._custody = custody
        self._room = room
        self._wait = store_client.settings.store_wait
        self._monotonic = store_client.clock.monotonic
        self._background: dict[asyncio.Task[None], None] = {}
        self._tidying = False
        self._tidy_rounds = 0
        self._under_way = 0
        self._too_late: dict[str, Any] = {}  # what was to be let go after the closing had begun
        self.closed = False
        self.failures = 0
        """How often an operation found the store away."""
        self.owners: dict[str, G | None] = {}
        """Every owner this process answers for, with what it was granted once it was. Whatever else the store holds
        in our session's name is a leftover."""

    async def repeat(self, operation: Callable[[], Awaitable[T]], since: float | None = None) -> T:
        """Do an operation, over and over while the store is away, in bounded time from ``since`` or from now."""
        self._under_way += 1
        try:
            return await repeat(operation, self._wait, self._monotonic, since=since, failed=self._failed)
        finally:
            self._under_way -= 1

    async def leave(self, want: W) -> L:
        """Give up a lease or a place in a queue, and call whoever is next if it is one of ours."""
        left = await self.repeat(lambda: self._custody.leave(want))
        self._call_next(left)
        return left

    def let_go(self, want: W) -> None:
        """Give up in the background whatever a request may have left in the store.

        It is on its way at once, before anything that is asked for after this. Until it is done the owner stays ours,
        so that nobody else tidies it away.
        """
        if self.closed:
            self._too_late[want.owner] = want
        else:
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
        """Stop everything in the background: what is left ends with the session, or by :meth:`give_back`."""
        self.closed = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def give_back(self) -> None:
        """Give back what would have ended with the session, which goes on for other concepts. Bounded."""
        session = self._store_client.session
        try:
            async with asyncio.timeout(self._wait):
                while self._under_way:  # noqa: ASYNC110 - every answer counts
                    await asyncio.sleep(0.002)
                wants: dict[str, Any] = {owned.owner: owned.want for owned in self.owners.values() if owned is not None}
                wants |= self._too_late
                for key, owner in await self._custody.session_requests(session.id):
                    wants.setdefault(owner, self._custody.stray(key, owner, session.id))
                leaving = (self._custody.leave(want) for want in wants.values())
                for left in await asyncio.gather(*leaving, return_exceptions=True):
                    if isinstance(left, BaseException):
                        raise left
        except (StoreError, TimeoutError) as error:
            emit(_log, logging.WARNING, "give_back_failed", error=repr(error))

    async def _let_go(self, want: W) -> None:
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
            session = self._store_client.session
            try:
                for key, owner in await self._custody.session_requests(session.id):
                    if owner not in self.owners:
                        emit(_log, logging.INFO, "leftover_tidied", key=key, owner=owner)
                        self._call_next(await self._custody.leave(self._custody.stray(key, owner, session.id)))
            except StoreUnavailableError:
                await asyncio.sleep(1.0)
            else:
                return

    def _call_next(self, left: L) -> None:
        for owner in self._custody.next_owners(left):
            if owner in self.owners:
                self._room.call(owner)

    def _failed(self) -> bool:
        self.failures += 1
        self.suspect()
        return not self.closed

    def _reap(self, task: asyncio.Task[None]) -> None:
        del self._background[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.ERROR, "background_failed", error=repr(error))
