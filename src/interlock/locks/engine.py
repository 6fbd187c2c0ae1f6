"""Takes, keeps and returns leases: the part of locks that is the same for every store.

Whatever happens on the way to a lease, an error, a time-out, a cancellation, its owner leaves nothing behind: what
may be left in the store is given up in the background, and if even that fails, as soon as the store is back.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlock.errors import DeadlockError, LockTimeoutError, StoreUnavailableError
from interlock.locks.explain import deadlock_lines, who_holds
from interlock.locks.lease import Lease
from interlock.locks.parties import Parties, Party
from interlock.locks.waitroom import Waitroom
from interlock.locks.warden import Warden
from interlock.ports.locks import Busy, Deadlocked, Granted, Waiting, Want
from interlock.sessions import Session, SessionKeeper
from interlock.telemetry.log import emit
from interlock.telemetry.metrics import LockMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from interlock.clock import Clock
    from interlock.ports.locks import Answer, Holder, Left, Transaction
    from interlock.ports.store import Store
    from interlock.settings import Settings

__all__ = ["Engine"]

_log = logging.getLogger("interlock.locks")
T = TypeVar("T")


class Engine:
    """The locks of one process in one store."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self.store = store
        self.metrics = LockMetrics(store.name, settings.metrics_prefix)
        self.monotonic = clock.monotonic
        self._settings = settings
        self._locks = store.locks
        self._keeper = SessionKeeper(store, settings, clock)
        self._keeper.on_lost = self._session_lost
        self._keeper.on_begin = self._session_began
        self._room = Waitroom(store.locks, self._keeper, settings, clock)
        self._warden = Warden(store.locks, clock, self._lose)
        self._parties = Parties()
        self._leases: dict[str, Lease] = {}
        self._in_flight: set[str] = set()
        self._background: dict[asyncio.Task[None], None] = {}
        self._tidying = False
        self._count = 0

    async def open(self) -> None:
        """Begin a session; from here on messages arrive."""
        await self._keeper.start()

    async def close(self) -> None:
        """Give everything back and end the session."""
        for lease in list(self._leases.values()):
            self._lose(lease, "closed", "its Locks was closed")
        self._room.call(None)
        await self._warden.stop()
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._keeper.started:
            await self._locks.unlisten(self._keeper.session.id)
        await self._keeper.stop()

    # -- taking ----------------------------------------------------------------------------------------------------

    async def take(self, key: str, ttl: float, wait: float | None) -> Lease | None:
        """A lease on the key; None if it is not to be had at once and ``wait`` is 0."""
        party = self._parties.current()
        session = self._keeper.session
        self._count += 1
        owner = f"{session.id}.{self._count}"
        want = Want(key, owner, party.name, session.id, ttl, wait, party.holds > 0)
        self._in_flight.add(owner)
        begun = self.monotonic()
        try:
            try:
                answer = await self._locks.ask(want)
            except StoreUnavailableError:
                return await self._take_slowly(want, party, begun, None)
            if type(answer) is Granted and not session.lost:
                return self._admit(want, party, session, answer, begun, begun)
            return await self._take_slowly(want, party, begun, answer)
        except BaseException as error:
            self._let_go(want, error)
            raise
        finally:
            self._in_flight.discard(owner)

    async def _take_slowly(self, want: Want, party: Party, begun: float, answer: Answer | None) -> Lease | None:
        """Take a key that was not granted at the first request: queue, ask again, outlast an outage."""
        give_up = None if want.wait is None else begun + want.wait
        seat = None
        sent = begun
        contended = False
        try:
            while True:
                if answer is None:
                    sent, answer = await self._ask(want)
                session = self._keeper.session
                if type(answer) is Granted and session.id == want.session and not session.lost:
                    return self._admit(want, party, session, answer, begun, sent)
                if type(answer) is Deadlocked:
                    raise DeadlockError(
                        f"Waiting for {want.key!r} would never end: {'; '.join(deadlock_lines(answer.cycle))}.",
                        cycle=deadlock_lines(answer.cycle),
                    )
                if not contended and isinstance(answer, (Busy, Waiting)):
                    contended = True
                    self.metrics.contentions += 1
                if type(answer) is Busy:
                    self._let_go(want, None)
                    self.metrics.outcomes["busy"] += 1
                    return None
                if type(answer) is Waiting:
                    if seat is None:
                        holder = answer.holder.party if answer.holder else None
                        emit(_log, logging.DEBUG, "lock_waiting", key=want.key, owner=want.owner, holder=holder)
                        seat = self._room.enter(want.owner, answer.look_again)
                    else:
                        self._room.look_in(answer.look_again)
                    left = None if give_up is None else give_up - self.monotonic()
                    if (left is not None and left <= 0) or not await seat.turn(left):
                        raise await self._timed_out(want, answer)
                else:
                    want = await self._renew_want(want, session, give_up)
                answer = None
        finally:
            if seat is not None:
                self._room.leave(want.owner)

    async def _ask(self, want: Want) -> tuple[float, Answer]:
        """Ask the store, for as long as an operation may take; says when the answered request was sent."""

        async def attempt() -> tuple[float, Answer]:
            sent = self.monotonic()
            return sent, await self._locks.ask(want)

        return await self._reach(attempt)

    async def _renew_want(self, want: Want, session: Session, give_up: float | None) -> Want:
        """The same request under the session that follows one that ended."""
        if session.id == want.session:
            session = await self._keeper.next_session(session, self._settings.store_wait)
        left = None if give_up is None else max(0.001, give_up - self.monotonic())
        return replace(want, session=session.id, wait=left if want.wait != 0 else 0)

    async def _timed_out(self, want: Want, answer: Waiting) -> LockTimeoutError:
        """Leave the queue, and say what stood in the way."""
        holder = answer.holder
        try:
            await self._leave(want)
            views = await self._locks.look(want.key)
            holder = views[0].holder if views else None
        except StoreUnavailableError as error:
            self._let_go(want, error)
        return LockTimeoutError(f"{want.key!r} did not come free within {want.wait:g} s: {who_holds(holder)}.")

    def _admit(self, want: Want, party: Party, session: Session, granted: Granted, begun: float, sent: float) -> Lease:
        lease = Lease(self, want, party, session, granted.fence, granted.expires_at)
        self._leases[want.owner] = lease
        party.holds += 1
        self._warden.admit(lease, sent)
        metrics = self.metrics
        metrics.acquired += 1
        metrics.active += 1
        lease.granted = now = self.monotonic()
        metrics.waits.observe(now - begun)
        return lease

    # -- returning -------------------------------------------------------------------------------------------------

    async def release(self, lease: Lease) -> None:
        """Give a lease back; raises if it turns out to have been lost before."""
        if lease.released:
            return
        if lease.lost_why:
            raise lease.error()
        want = lease.want
        self._in_flight.add(want.owner)
        self._forget(lease)
        lease.released = True
        sure = True
        try:
            try:
                left = await self._locks.leave(want)
            except StoreUnavailableError:
                sure = False  # the first try may have worked, so that "not held" proves nothing
                left = await self._leave(want)
        except StoreUnavailableError as error:
            emit(_log, logging.WARNING, "lock_release_failed", key=lease.key, error=str(error))
            self._let_go(want, error)
            return
        except BaseException as error:
            self._let_go(want, error)
            raise
        finally:
            self._in_flight.discard(want.owner)
        if left.next_owner is not None:
            self._room.call(left.next_owner)
        if not left.held and sure:
            lease.lost_why = left.why
            self._count_loss(lease, "taken")
            raise lease.error()

    async def force(self, key: str, reason: str, by: str) -> Holder | None:
        """Take a key from its holder, whoever that is."""
        why = f"{by} released it by force: {reason}"
        holder = await self._reach(lambda: self._locks.force(key, why))
        if holder is not None:
            emit(_log, logging.WARNING, "lock_forced", key=key, fence=holder.fence, by=by, reason=reason)
        return holder

    def fenced(self, lease: Lease) -> AbstractAsyncContextManager[Transaction]:
        """A transaction in the store that only a live lease can commit."""
        lease.ensure()
        return self._locks.fenced(lease.key, lease.owner, lease.fence)

    def _forget(self, lease: Lease) -> None:
        del self._leases[lease.owner]
        self._warden.dismiss(lease)
        lease.party.holds -= 1
        self.metrics.active -= 1
        self.metrics.holds.observe(self.monotonic() - lease.granted)

    async def _leave(self, want: Want) -> Left:
        left = await self._reach(lambda: self._locks.leave(want))
        if left.next_owner is not None:
            self._room.call(left.next_owner)
        return left

    # -- losing ----------------------------------------------------------------------------------------------------

    def _lose(self, lease: Lease, reason: str, why: str) -> None:
        """A lease has ended, or is about to, under its holder."""
        if self._leases.get(lease.owner) is lease:
            self._forget(lease)
            self._count_loss(lease, reason)
            emit(_log, logging.ERROR, "lease_lost", key=lease.key, fence=lease.fence, reason=reason, why=why)
            # Not given back here: its body may need the rest of the margin to stop in.
            lease.lose(why)

    def _count_loss(self, lease: Lease, reason: str) -> None:
        self.metrics.losses[reason] = self.metrics.losses.get(reason, 0) + 1

    def _session_lost(self, session: Session) -> None:
        for lease in [lease for lease in self._leases.values() if lease.session is session]:
            self._lose(lease, "session", "its process's session could not be renewed")
        self._room.call(None)

    def _session_began(self, session: Session) -> None:
        self._spawn(self._listen(session))

    async def _listen(self, session: Session) -> None:
        def on_lost(owner: str, why: str) -> None:
            lease = self._leases.get(owner)
            if lease is not None:
                self._lose(lease, "forced", why)

        await self._reach(lambda: self._locks.listen(session.id, self._room.call, on_lost))

    # -- leaving nothing behind ------------------------------------------------------------------------------------

    def _let_go(self, want: Want, error: BaseException | None) -> None:
        """Give up in the background whatever a request may have left in the store."""
        if isinstance(error, asyncio.CancelledError):
            self.metrics.outcomes["cancelled"] += 1
        elif isinstance(error, DeadlockError):
            self.metrics.outcomes["deadlock"] += 1
            emit(_log, logging.WARNING, "lock_deadlock", key=want.key, cycle=error.cycle)
            return
        elif isinstance(error, LockTimeoutError):
            self.metrics.outcomes["timeout"] += 1
            return
        elif isinstance(error, StoreUnavailableError):
            self.metrics.outcomes["unavailable"] += 1
        self._spawn(self._let_go_of(want))

    async def _let_go_of(self, want: Want) -> None:
        self._in_flight.add(want.owner)
        try:
            await self._leave(want)
        except StoreUnavailableError:
            self._in_flight.discard(want.owner)
            await self._tidy()
        finally:
            self._in_flight.discard(want.owner)

    async def _tidy(self) -> None:
        """Once the store is back, give up everything in our session's name that nobody here knows of.

        Twice: a request that was cut off may still arrive after the store answers others again.
        """
        if self._tidying:
            return
        self._tidying = True
        try:
            for _ in range(2):
                await self._tidy_once()
                await asyncio.sleep(self._settings.store_wait)
        finally:
            self._tidying = False

    async def _tidy_once(self) -> None:
        while True:
            session = self._keeper.session
            try:
                for key, owner in await self._locks.belongings(session.id):
                    if owner not in self._leases and owner not in self._room and owner not in self._in_flight:
                        emit(_log, logging.INFO, "lock_tidied", key=key, owner=owner)
                        left = await self._locks.leave(Want(key, owner, "", session.id, 1.0, 0, False))
                        if left.next_owner is not None:
                            self._room.call(left.next_owner)
            except StoreUnavailableError:
                await asyncio.sleep(1.0)
            else:
                return

    async def _reach(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do an operation that may be repeated, over and over while the store is away, in bounded time."""
        give_up = self.monotonic() + self._settings.store_wait
        pause = 0.02
        while True:
            try:
                return await operation()
            except StoreUnavailableError:
                if self.monotonic() + pause >= give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.5)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background[task] = None
        task.add_done_callback(self._reap)

    def _reap(self, task: asyncio.Task[None]) -> None:
        del self._background[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.ERROR, "lock_background_failed", error=repr(error))
