"""An engine's access to the store: repeats operations through short outages, and leaves nothing behind.

An operation that fails may have taken effect anyway, or may still take effect. Anything that it may have left in the
store is released in the background. If that fails too, it is released as soon as the store is available again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock.errors import StoreError, StoreUnavailableError
from interlock.leases.eager_start import start_eagerly
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
    """Repeatable operations, and the cleanup after failed ones."""

    def __init__(self, store_client: StoreClient, backend: LeaseBackend[W, L], queue: WaitQueue) -> None:
        self._store_client = store_client
        self._backend = backend
        self._queue = queue
        self._wait = store_client.settings.store_wait
        self._monotonic = store_client.clock.monotonic
        self._background: dict[asyncio.Task[None], None] = {}
        self._cleaning = False
        self._cleanup_rounds = 0
        self.in_progress = 0
        """How many requests are on their way to the store or back."""
        self._withdrawn_late: dict[str, Any] = {}  # requests withdrawn after closing had begun
        self.closed = False
        self.failures = 0
        """How many operations found the store unavailable."""
        self.owners: dict[str, G | None] = {}
        """Every owner of this process, with its lease once it is granted. Anything else that the store keeps for our
        session is a leftover."""

    async def repeat(self, operation: Callable[[], Awaitable[T]], since: float | None = None) -> T:
        """Repeat an operation while the store is unavailable, for a bounded time from ``since`` or from now."""
        self.in_progress += 1
        try:
            return await repeat(operation, self._wait, self._monotonic, since=since, failed=self._failed)
        finally:
            self.in_progress -= 1

    async def leave(self, request: W) -> L:
        """Release a lease or a queue position, and wake the next waiter if it is one of ours."""
        left = await self.repeat(lambda: self._backend.leave(request))
        self._wake_next(left)
        return left

    def withdraw(self, request: W) -> None:
        """Release in the background anything that a request may have left in the store.

        The release is sent at once, before any later request. Its owner stays registered until it is done, so that the
        cleanup does not release it a second time.
        """
        if self.closed:
            self._withdrawn_late[request.owner] = request
        else:
            self.owners.setdefault(request.owner, None)
            rest = start_eagerly(self._withdraw(request))
            if rest is not None:
                self.spawn(rest)

    def suspect_leftovers(self) -> None:
        """Look for leftovers, because an operation failed.

        The cleanup runs twice: a request that was cut off may arrive after the store answers others again.
        """
        self._cleanup_rounds = 2
        if not self._cleaning and not self.closed:
            self._cleaning = True
            self.spawn(self._clean_up())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background, and log it if it fails."""
        task = asyncio.get_running_loop().create_task(work)
        self._background[task] = None
        task.add_done_callback(self._reap)

    async def close(self) -> None:
        """Stop all background work, and wait a bounded time for requests that the store is still processing.

        What is left ends with the session, or with :meth:`release_all`. A request that the store processes while the
        session ends could leave something behind that no longer ends with it.
        """
        self.closed = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        until = self._monotonic() + self._store_client.settings.session_margin
        while self.in_progress and self._monotonic() < until:  # noqa: ASYNC110 - every answer counts
            await asyncio.sleep(0.002)

    async def release_all(self) -> None:
        """Release what would have ended with the session, when other concepts keep the session. Bounded in time."""
        session = self._store_client.session
        try:
            async with asyncio.timeout(self._wait):
                while self.in_progress:  # noqa: ASYNC110 - every answer counts
                    await asyncio.sleep(0.002)
                requests: dict[str, Any] = {
                    lease.owner: lease._request for lease in self.owners.values() if lease is not None
                }
                requests |= self._withdrawn_late
                for key, owner in await self._backend.session_requests(session.id):
                    requests.setdefault(owner, self._backend.rebuild_request(key, owner, session.id))
                leaving = (self._backend.leave(request) for request in requests.values())
                for left in await asyncio.gather(*leaving, return_exceptions=True):
                    if isinstance(left, BaseException):
                        raise left
        except (StoreError, TimeoutError) as error:
            emit(_log, logging.WARNING, "lease_release_failed", error=repr(error))

    async def _withdraw(self, request: W) -> None:
        try:
            await self.leave(request)
        except StoreUnavailableError:
            pass  # leave() has already scheduled a cleanup
        finally:
            self.owners.pop(request.owner, None)

    async def _clean_up(self) -> None:
        try:
            while self._cleanup_rounds:
                self._cleanup_rounds -= 1
                await self._clean_up_once()
                await asyncio.sleep(self._wait)
        finally:
            self._cleaning = False

    async def _clean_up_once(self) -> None:
        """Once the store is available, release everything of our session that this process does not know."""
        while True:
            session = self._store_client.session
            try:
                for key, owner in await self._backend.session_requests(session.id):
                    if owner not in self.owners:
                        emit(_log, logging.INFO, "leftover_released", key=key, owner=owner)
                        request = self._backend.rebuild_request(key, owner, session.id)
                        self._wake_next(await self._backend.leave(request))
            except StoreUnavailableError:
                await asyncio.sleep(1.0)
            else:
                return

    def _wake_next(self, left: L) -> None:
        for owner in self._backend.next_owners(left):
            if owner in self.owners:
                self._queue.wake(owner)

    def _failed(self) -> bool:
        self.failures += 1
        self.suspect_leftovers()
        return not self.closed

    def _reap(self, task: asyncio.Task[None]) -> None:
        del self._background[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.ERROR, "background_task_failed", error=repr(error))
