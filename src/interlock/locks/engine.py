"""Takes, keeps and returns leases: the part of locks that is the same for every store.

Whatever happens on the way to a lease, an error, a time-out, a cancellation, its owner leaves nothing behind: what
may be left in the store is given up in the background, and if even that fails, as soon as the store is back.
"""

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
from interlock.locks.lease_backend import LockCustody
from interlock.ports.locks import Busy, Deadlocked, Granted, Left, SessionEnded, Waiting, Want
from interlock.telemetry.log import emit
from interlock.telemetry.metrics import LockMetrics

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from interlock.ports.locks import Answer, Transaction
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

__all__ = ["Block", "Engine"]

_log = logging.getLogger("interlock.locks")
_MOST_LATE = 3  # grants heard too late to use, before it is called an outage


class Block(Protocol):
    """An ``async with`` that is about to begin."""

    lease: Lease


class Engine(LeaseEngine[Want, Lease, Left]):
    """The locks of one process in one store."""

    mark = ""
    these = "Locks"

    def __init__(self, store_client: StoreClient) -> None:
        super().__init__(store_client, LockCustody(store_client.store.locks))
        self.metrics = LockMetrics(self.store.name, self._settings.metrics_prefix)
        self._count_wait = self.metrics.waits.observe
        self._count_hold = self.metrics.holds.observe
        self._locks = self.store.locks
        self._callers = Callers()

    # -- taking ----------------------------------------------------------------------------------------------------

    async def take(self, key: str, ttl: float, wait: float | None, block: Block | None = None) -> Lease:
        """A lease on the key. For a block, it is tied to the running task, which is cancelled if the lease is lost."""
        task = current_task(self._loop)
        caller = self._callers.of(task)
        session = self._session
        self._count = count = self._count + 1
        owner = f"{session.id}.{count}"
        want = Want(key, owner, caller.name, session.id, ttl, wait, caller.holds > 0)
        self._owners[owner] = None
        begun = self.monotonic()
        lease = None
        try:
            try:
                answer = await self._locks.ask(want)
            except StoreUnavailableError:
                self._reach.suspect()
                answer = None
            if type(answer) is Granted:
                lease = self._admit(want, caller, session, answer, begun, begun)
        except BaseException as error:
            self._failed(want, error)
            raise
        if lease is None:
            lease = await self._take_slowly(want, caller, session, begun, answer)
        if block is not None:
            block.lease = lease
            lease.tie(task)
        return lease

    async def _take_slowly(
        self, want: Want, caller: Caller, session: Session, begun: float, answer: Answer | None
    ) -> Lease:
        """Take a key that was not granted at the first request: queue, ask again, outlast an outage."""
        give_up = None if want.wait is None else begun + want.wait
        sent = begun
        since = begun if answer is None else None  # what the first request tried counts
        late = 0
        place: Waiting | None = None
        try:
            while True:
                if self._reach.closed:
                    raise MisuseError("These locks were closed while somebody waited.", remedy="Open them again.")
                if session.lost:
                    session = await self._store_client.keeper.next_session(session, self._settings.store_wait)
                    want, old = self._want_again(want, caller, session, give_up), want
                    self._room.leave(old.owner)
                    self._reach.let_go(old)
                    answer = place = None
                if answer is None:
                    try:
                        sent, answer = await self._ask(want, since)
                    except StoreUnavailableError:
                        if place is None:
                            raise
                        answer = place  # the place in the queue outlasts an outage, for as long as the session does
                    since = None
                if type(answer) is SessionEnded:
                    session.lost = True
                elif type(answer) is Granted:
                    lease = self._admit(want, caller, session, answer, begun, sent)
                    if lease is not None:
                        return lease
                    late += 1
                    if late == _MOST_LATE:
                        raise StoreUnavailableError(f"Its answers come too late for a ttl of {want.ttl:g} s.")
                elif type(answer) is Deadlocked:
                    cycle = deadlock_lines(answer.cycle)
                    raise DeadlockError(f"Waiting for {want.key!r} would never end: {'; '.join(cycle)}.", cycle=cycle)
                elif type(answer) is Busy:
                    raise LockTimeoutError(f"{want.key!r} is not free: {who_holds(answer.holder)}.")
                elif type(answer) is Waiting and not session.lost:
                    place = answer
                    handed = await self._wait_turn(want, give_up, answer)
                    if handed is not None:
                        sent, answer = handed
                        continue
                answer = None
        except BaseException as error:
            self._failed(want, error)
            raise
        finally:
            self._room.leave(want.owner)

    async def _wait_turn(self, want: Want, give_up: float | None, answer: Waiting) -> tuple[float, Granted] | None:
        """Sit in the waitroom until it may be our turn, or we are handed the key; raises if the time runs out first."""
        seat = self._room.enter(want.owner, answer.look_again)
        if seat.first_time:
            self.metrics.contentions += 1
            emit(_log, logging.DEBUG, "lock_waiting", key=want.key, owner=want.owner)
        left = None if give_up is None else give_up - self.monotonic()
        if (left is not None and left <= 0) or not await seat.turn(left):
            raise await self._timed_out(want)
        handed, seat.handed = seat.handed, None
        return handed

    def _want_again(self, want: Want, caller: Caller, session: Session, give_up: float | None) -> Want:
        """The same request under another session, for what is left of its time to wait.

        With a new owner: one belongs to one session for ever, so that what a session loses no other one finds.
        """
        wait = want.wait
        if give_up is not None and wait != 0:
            wait = max(0.001, give_up - self.monotonic())
        return Want(want.key, self._new_owner(session), caller.name, session.id, want.ttl, wait, caller.holds > 0)

    async def _ask(self, want: Want, since: float | None) -> tuple[float, Answer]:
        """Ask the store, for as long as an operation may take; says when the answered request was sent."""

        async def attempt() -> tuple[float, Answer]:
            sent = self.monotonic()
            return sent, await self._locks.ask(want)

        return await self._reach.repeat(attempt, since)

    async def _timed_out(self, want: Want) -> LockTimeoutError:
        """Leave the queue, and say what stood in the way."""
        try:
            await self._reach.leave(want)
            views = await self._locks.list(want.key)
            why = who_holds(views[0].holder if views else None)
        except StoreUnavailableError:
            self._reach.let_go(want)
            why = "and the store is away"
        return LockTimeoutError(f"{want.key!r} did not come free within {want.wait:g} s: {why}.")

    def _admit(
        self, want: Want, caller: Caller, session: Session, granted: Granted, begun: float, sent: float
    ) -> Lease | None:
        """The lease that was granted; None if that was heard too late to rely on it."""
        lease = Lease(self, want, caller, session, granted.fence, granted.expires_at)
        self._warden.admit(lease, sent)
        lease.granted = now = self.monotonic()
        if now >= session.deadline:
            session.lost = True
        if now >= lease.deadline or session.lost or self._reach.closed:
            return None
        self._owners[want.owner] = lease
        caller.holds += 1
        self._count_wait(now - begun)
        return lease

    # -- returning -------------------------------------------------------------------------------------------------

    async def release(self, lease: Lease) -> None:
        """Give a lease back; raises if it turns out to have been lost before."""
        if lease.released:
            return
        if lease.lost_why:
            self._reach.let_go(lease.want)
            raise lease.error()
        want = lease.want
        lease.released = True
        lease.untie()
        sent = self.monotonic()
        lease.caller.holds -= 1  # what _retire does, without the call: this is done for every lease
        self._count_hold(sent - lease.granted)
        sure = True
        try:
            try:
                left = await self._locks.leave(want)
            except StoreUnavailableError:
                self._reach.suspect()
                sure = False  # the first try may have worked, so that "not held" proves nothing
                left = await self._reach.leave(want)
        except StoreUnavailableError as error:
            emit(_log, logging.WARNING, "lock_release_failed", key=lease.key, error=str(error))
            self._reach.let_go(want)
            return
        except BaseException:
            self._reach.let_go(want)
            raise
        del self._owners[want.owner]
        held, why, next_owner, handed = left
        if handed is not None and next_owner is not None:
            self._room.hand(next_owner, sent, handed)
        elif next_owner is not None:
            self._room.call(next_owner)
        if not held and sure:
            lease.lost_why = why
            self._count_loss("taken")
            raise lease.error()

    def abandon(self, lease: Lease) -> None:
        """Give back in the background what a body that has ended no longer needs."""
        if not lease.released and not lease.lost_why:
            lease.released = True
            self._retire(lease)
        self._reach.let_go(lease.want)

    def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the store that only a live lease can commit."""
        lease.ensure()
        return self._locks.fenced(lease.key, lease.owner, lease.fence)

    def _retire(self, owned: Lease) -> None:
        owned.caller.holds -= 1
        self._count_hold(self.monotonic() - owned.granted)

    # -- losing ----------------------------------------------------------------------------------------------------

    def _lost(self, owned: Lease, reason: str, why: str) -> None:
        self._count_loss(reason)
        emit(_log, logging.ERROR, "lease_lost", key=owned.key, fence=owned.fence, reason=reason, why=why)

    def _count_loss(self, reason: str) -> None:
        self.metrics.losses[reason] = self.metrics.losses.get(reason, 0) + 1

    def _renewal_failed(self, owned: Lease, error: Exception) -> None:
        emit(_log, logging.WARNING, "lock_renewal_failed", key=owned.key, error=str(error))

    # -- leaving nothing behind ------------------------------------------------------------------------------------

    def _failed(self, want: Want, error: BaseException) -> None:
        """A request ended without a lease."""
        if isinstance(error, DeadlockError):
            outcome = "deadlock"
            emit(_log, logging.WARNING, "lock_deadlock", key=want.key, cycle=error.cycle)
        elif isinstance(error, LockTimeoutError) and want.wait == 0:
            outcome = "busy"
            self.metrics.contentions += 1
        elif isinstance(error, LockTimeoutError):
            outcome = "timeout"
        elif isinstance(error, asyncio.CancelledError):
            outcome = "cancelled"
        elif isinstance(error, MisuseError):
            outcome = "closed"
        else:
            outcome = "unavailable"
        self.metrics.outcomes[outcome] += 1
        if outcome in ("busy", "deadlock", "timeout"):
            self._owners.pop(want.owner, None)  # the store said that nothing is left
        else:
            self._reach.let_go(want)
