"""The lock engine: acquires, keeps and releases leases in the same way for every store.

A request that ends without a lease, by an error, a timeout or a cancellation, leaves nothing behind. What it may have
left in the store is released in the background, or as soon as the store is available again.
"""

# The private attributes of a lease belong to the engines.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
from asyncio import current_task
from typing import TYPE_CHECKING, Protocol

from interlock.callers import Caller, Callers
from interlock.errors import DeadlockError, LockTimeoutError, MisuseError, StoreUnavailableError
from interlock.leases.engine import LeaseEngine
from interlock.locks.explain import deadlock_lines, who_holds
from interlock.locks.lease import Lease
from interlock.locks.lease_backend import LockLeaseBackend
from interlock.ports.locks import Busy, Deadlocked, Granted, Left, LockRequest, SessionEnded, Waiting
from interlock.telemetry.log import emit
from interlock.telemetry.metrics import LeaseCounts, LockMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from interlock.ports.locks import Answer, Transaction
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

__all__ = ["Block", "Engine", "FirstAsk"]

_log = logging.getLogger("interlock.locks")
_MAX_LATE = 3  # grants that arrive too late to be used, before it counts as an outage


class Block(Protocol):
    """An ``async with`` that is about to start."""

    lease: Lease


class FirstAsk(Protocol):
    """A first request for a key that does something else in the same step if the key is granted at once."""

    async def ask(self, request: LockRequest) -> Answer:
        """Ask for the key."""
        ...

    def forget(self) -> None:
        """Forget what was done: the lease comes from a later request."""
        ...


class Engine(LeaseEngine[LockRequest, Lease, Left]):
    """The locks of one process in one store."""

    owner_tag = ""
    plural = "Locks"

    def __init__(self, store_client: StoreClient, apart: tuple[str, LeaseCounts] | None = None) -> None:
        super().__init__(store_client, LockLeaseBackend(store_client.store.locks))
        self.apart = apart
        """A prefix of keys that are counted apart from the others, and their counts."""
        self.metrics = LockMetrics(self.store.name, self._settings.metrics_prefix)
        self._count_wait = self.metrics.waits.observe
        self._count_hold = self.metrics.holds.observe
        self._locks = self.store.locks
        self._callers = Callers()

    # -- acquiring -------------------------------------------------------------------------------------------------

    async def take(
        self, key: str, ttl: float, wait: float | None, block: Block | None = None, first: FirstAsk | None = None
    ) -> Lease:
        """Acquire a lease. For a block, it is tied to the running task, which is cancelled if the lease is lost."""
        task = current_task(self._loop)
        caller = self._callers.of(task)
        session = self._session
        self._count = count = self._count + 1
        owner = f"{session.id}.{count}"
        request = LockRequest(key, owner, caller.name, session.id, ttl, wait, caller.holds > 0)
        self._owners[owner] = None
        begun = self.monotonic()
        alarms = self._queue.alarms
        lease = None
        try:
            self._access.in_progress += 1
            try:
                answer = await (self._locks if first is None else first).ask(request)
            except StoreUnavailableError:
                self._access.suspect_leftovers()
                answer = None
            finally:
                self._access.in_progress -= 1
            if type(answer) is Granted:
                lease = self._admit(request, caller, session, answer, begun, begun)
        except BaseException as error:
            self._failed(request, error)
            raise
        if lease is None:
            if first is not None:
                first.forget()
            lease = await self._take_slowly(request, caller, session, begun, answer, alarms)
        if block is not None:
            block.lease = lease
            lease._tie(task)
        return lease

    async def _take_slowly(
        self, request: LockRequest, caller: Caller, session: Session, begun: float, answer: Answer | None, alarms: int
    ) -> Lease:
        """Acquire a key that the first request did not grant: queue, ask again, survive an outage."""
        give_up = None if request.wait is None else begun + request.wait
        sent = begun
        since = begun if answer is None else None  # the time of the first request counts
        late = 0
        place: Waiting | None = None
        try:
            while True:
                if self._access.closed:
                    raise MisuseError("These locks were closed while a caller waited.", remedy="Open them again.")
                if session.lost:
                    session = await self._store_client.keeper.next_session(session, self._settings.store_wait)
                    request, old = self._want_again(request, caller, session, give_up), request
                    self._queue.leave(old.owner)
                    self._access.withdraw(old)
                    answer = place = None
                if answer is None:
                    alarms = self._queue.alarms
                    try:
                        sent, answer = await self._ask(request, since)
                    except StoreUnavailableError:
                        if place is None:
                            raise
                        answer = place  # the queue position survives an outage as long as the session does
                    since = None
                if type(answer) is SessionEnded:
                    session.lost = True
                elif type(answer) is Granted:
                    lease = self._admit(request, caller, session, answer, begun, sent)
                    if lease is not None:
                        return lease
                    late += 1
                    if late == _MAX_LATE:
                        raise StoreUnavailableError(f"The store answers too slowly for a ttl of {request.ttl:g} s.")
                elif type(answer) is Deadlocked:
                    cycle = deadlock_lines(answer.cycle)
                    raise DeadlockError(f"Deadlock while waiting for {request.key!r}: {'; '.join(cycle)}.", cycle=cycle)
                elif type(answer) is Busy:
                    raise LockTimeoutError(f"The lock {request.key!r} is not free: {who_holds(answer.holder)}.")
                elif type(answer) is Waiting and not session.lost:
                    place = answer
                    handed = await self._wait_turn(request, give_up, answer, alarms)
                    if handed is not None:
                        sent, answer = handed
                        continue
                answer = None
        except BaseException as error:
            self._failed(request, error)
            raise
        finally:
            self._queue.leave(request.owner)

    async def _wait_turn(
        self, request: LockRequest, give_up: float | None, answer: Waiting, alarms: int
    ) -> tuple[float, Granted] | None:
        """Wait for our turn, or for the key itself. Raises if the time to wait runs out first."""
        wait = self._queue.enter(request.owner, answer.recheck_in, alarms)
        if wait.first_time:
            self._counts(request.key).contentions += 1
            emit(_log, logging.DEBUG, "lock_waiting", key=request.key, owner=request.owner)
        left = None if give_up is None else give_up - self.monotonic()
        if (left is not None and left <= 0) or not await wait.turn(left):
            raise await self._timed_out(request)
        handed, wait.granted = wait.granted, None
        return handed

    def _want_again(self, request: LockRequest, caller: Caller, session: Session, give_up: float | None) -> LockRequest:
        """Return the same request for another session, with the rest of its time to wait.

        It gets a new owner, because an owner belongs to one session forever.
        """
        wait = request.wait
        if give_up is not None and wait != 0:
            wait = max(0.001, give_up - self.monotonic())
        return LockRequest(
            request.key, self._new_owner(session), caller.name, session.id, request.ttl, wait, caller.holds > 0
        )

    async def _ask(self, request: LockRequest, since: float | None) -> tuple[float, Answer]:
        """Ask the store, for as long as an operation may take; returns when the answered request was sent."""

        async def attempt() -> tuple[float, Answer]:
            sent = self.monotonic()
            return sent, await self._locks.ask(request)

        return await self._access.repeat(attempt, since)

    async def _timed_out(self, request: LockRequest) -> LockTimeoutError:
        """Leave the queue and return the error that names the holder."""
        try:
            await self._access.leave(request)
            views = await self._locks.list(request.key)
            why = who_holds(views[0].holder if views else None)
        except StoreUnavailableError:
            self._access.withdraw(request)
            why = "and the store is unavailable"
        return LockTimeoutError(f"The lock {request.key!r} was not released within {request.wait:g} s: {why}.")

    def _admit(
        self, request: LockRequest, caller: Caller, session: Session, granted: Granted, begun: float, sent: float
    ) -> Lease | None:
        """Return the lease that was granted; None if the answer came too late to rely on it."""
        lease = Lease(self, request, caller, session, granted.fence, granted.expires_at)
        self._renewer.admit(lease, sent)
        lease._granted_at = now = self.monotonic()
        if now >= session.deadline:
            session.lost = True
        if now >= lease._deadline or session.lost or self._access.closed:
            return None
        self._owners[request.owner] = lease
        caller.holds += 1
        if self.apart is None:
            self._count_wait(now - begun)
        else:
            self._counts(request.key).waits.observe(now - begun)
        return lease

    # -- releasing -------------------------------------------------------------------------------------------------

    async def release(self, lease: Lease) -> None:
        """Release a lease. Raises if it had been lost before."""
        if lease._released:
            return
        if lease._loss:
            self._access.withdraw(lease._request)
            raise lease._loss_error()
        request = lease._request
        lease._released = True
        lease._untie()
        sent = self.monotonic()
        lease._caller.holds -= 1  # what _retire does, without the call: this runs for every lease
        if self.apart is None:
            self._count_hold(sent - lease._granted_at)
        else:
            self._counts(request.key).holds.observe(sent - lease._granted_at)
        sure = True
        try:
            try:
                left = await self._locks.leave(request)
            except StoreUnavailableError:
                self._access.suspect_leftovers()
                sure = False  # the first attempt may have worked, so "not held" proves nothing
                left = await self._access.leave(request)
        except StoreUnavailableError as error:
            emit(_log, logging.WARNING, "lock_release_failed", key=lease.key, error=str(error))
            self._access.withdraw(request)
            return
        except BaseException:
            self._access.withdraw(request)
            raise
        del self._owners[request.owner]
        held, why, next_owner, handed = left
        if handed is not None and next_owner is not None:
            self._queue.hand_over(next_owner, sent, handed)
        elif next_owner is not None:
            self._queue.wake(next_owner)
        if not held and sure:
            lease._loss = why
            self._count_loss(lease, "taken")
            raise lease._loss_error()

    async def release_with(
        self,
        leases: Sequence[Lease],
        operation: Callable[[Sequence[LockRequest]], Awaitable[Sequence[Left] | None]],
    ) -> None:
        """Let an operation release leases in a transaction of its own, in which it does something else as well.

        It gets the requests of the leases, and returns what the store answered for each. If it returns None or fails,
        the leases are held as before, and are the caller's to release. Raises :class:`LeaseLostError` without calling
        it if a lease is known to be lost: the operation relies on all of them.
        """
        for lease in leases:
            if lease._released or lease._loss:
                lease.ensure()
        sent = self.monotonic()
        for lease in leases:
            lease._released = True  # a renewal that comes after the release finds no loss
            lease._untie()  # the block has ended: what is left may outlast the session, because the store checks it
        all_left: Sequence[Left] | None = None
        try:
            all_left = await operation([lease._request for lease in leases])
        finally:
            for number, lease in enumerate(leases):
                if all_left is None:
                    lease._released = False
                else:
                    self._released_by_another(lease, all_left[number], sent)

    def _released_by_another(self, lease: Lease, left: Left, sent: float) -> None:
        """Do what :meth:`release` does after the store has released a lease in another transaction."""
        lease._untie()
        self._retire(lease)
        del self._owners[lease._request.owner]
        if left.handed is not None and left.next_owner is not None:
            self._queue.hand_over(left.next_owner, sent, left.handed)
        elif left.next_owner is not None:
            self._queue.wake(left.next_owner)

    def abandon(self, lease: Lease) -> None:
        """Release in the background what a block that has ended no longer needs."""
        if not lease._released and not lease._loss:
            lease._released = True
            self._retire(lease)
        self._access.withdraw(lease._request)

    def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]:
        """Return a transaction in the store that only a live lease can commit."""
        lease.ensure()
        return self._locks.fenced(lease.key, lease.owner, lease.fence)

    def _retire(self, lease: Lease) -> None:
        lease._caller.holds -= 1
        self._counts(lease.key).holds.observe(self.monotonic() - lease._granted_at)

    def _counts(self, key: str) -> LeaseCounts:
        """Return the counts that a key belongs to."""
        return self.apart[1] if self.apart is not None and key.startswith(self.apart[0]) else self.metrics

    # -- loss ------------------------------------------------------------------------------------------------------

    def _lost(self, lease: Lease, cause: str, why: str) -> None:
        self._count_loss(lease, cause)
        emit(_log, logging.ERROR, "lease_lost", key=lease.key, fence=lease.fence, cause=cause, why=why)

    def _count_loss(self, lease: Lease, cause: str) -> None:
        losses = self._counts(lease.key).losses
        losses[cause] = losses.get(cause, 0) + 1

    def _renewal_failed(self, lease: Lease, error: Exception) -> None:
        emit(_log, logging.WARNING, "lock_renewal_failed", key=lease.key, error=str(error))

    # -- failed requests --------------------------------------------------------------------------------------------

    def _failed(self, request: LockRequest, error: BaseException) -> None:
        """Handle a request that ended without a lease."""
        if isinstance(error, DeadlockError):
            outcome = "deadlock"
            emit(_log, logging.WARNING, "lock_deadlock", key=request.key, cycle=error.cycle)
        elif isinstance(error, LockTimeoutError) and request.wait == 0:
            outcome = "busy"
            self._counts(request.key).contentions += 1
        elif isinstance(error, LockTimeoutError):
            outcome = "timeout"
        elif isinstance(error, asyncio.CancelledError):
            outcome = "cancelled"
        elif isinstance(error, MisuseError):
            outcome = "closed"
        else:
            outcome = "unavailable"
        self._counts(request.key).outcomes[outcome] += 1
        if outcome in ("busy", "deadlock", "timeout"):
            self._owners.pop(request.owner, None)  # the store confirmed that nothing is left
        else:
            self._access.withdraw(request)
