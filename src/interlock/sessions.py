"""A process's sign of life in one store, kept by a heartbeat.

Where a store can outlive the process, the heartbeat runs on a thread, an event loop and a connection of its own, so
that a busy event loop does not cost the process its leases. When the session cannot be renewed, its work is
cancelled while the store still honors it; work that does not stop by the time the session ends is dealt with as
``Settings.stuck_work`` says. An ended session is never revived: a new one takes its place.

That thread waits for nothing but the store. It hands what it logs to another thread, and acts before it logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import secrets
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import StoreReplacedError, StoreUnavailableError
from interlock.exits import exit_process
from interlock.late_executor import LateExecutor
from interlock.ports.sessions import SessionCard
from interlock.telemetry.log import BackgroundLog, emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.clock import Clock
    from interlock.ports.sessions import SessionStore
    from interlock.ports.store import Store
    from interlock.settings import Settings

__all__ = ["Session", "SessionKeeper", "program"]

_log = logging.getLogger("interlock.sessions")
_SWEEP_EVERY = 60.0
_TELL_EVERY = 10.0
_PLENTY = 100
_LAST_SWEEP = 0.5
_EXIT_STUCK = 70
_LOG_SECONDS = 1.0
"""How long to wait for log handlers that do not return."""


class Session:
    """One session as this process knows it."""

    __slots__ = ("at_work", "deadline", "id", "leaving", "lost")

    def __init__(self, id: str, deadline: float) -> None:  # noqa: A002
        self.id = id
        self.deadline = deadline
        """Local monotonic time up to which the store is sure to honour it, less the margin to stop in."""
        self.lost = False
        self.at_work = 0
        """How many bodies rely on it right now."""
        self.leaving = False
        """Whether the store knows that this process is shutting down."""


class SessionKeeper:
    """Begins, renews and ends this process's session in one store."""

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._session: Session | None = None
        self._awaiting: dict[asyncio.Future[Session], None] = {}
        self._ended: asyncio.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heart_loop: asyncio.AbstractEventLoop | None = None
        self._alarm: asyncio.Event | None = None
        self._stopping = False
        self._leaving = False
        self._swept = False
        self.first_wait = settings.store_wait
        """How long starting the first session keeps trying while the store is away."""
        self._replaced: StoreReplacedError | None = None
        self._blockage: tuple[float, str] | None = None
        self._thread: threading.Thread | None = None
        self._log = BackgroundLog()
        self._task: asyncio.Task[None] | None = None
        self.on_lost: Callable[[Session], None] = lambda _: None
        self.on_begin: Callable[[Session], None] = lambda _: None

    @property
    def started(self) -> bool:
        """Whether a session was ever begun."""
        return self._session is not None

    @property
    def session(self) -> Session:
        """The newest session; it may be lost while the next one is still to begin."""
        assert self._session is not None, "the keeper was not started"
        return self._session

    async def start(self) -> Session:
        """Begin the first session. Raises ``StoreUnavailableError`` if the store cannot be reached."""
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._stopping = False
        began = self._await_session()
        lifeline = self._store.lifeline()
        if lifeline is None:
            self._task = asyncio.create_task(self._keep(self._store.sessions), name="interlock-session")
        else:
            self._thread = threading.Thread(
                target=self._run_thread, args=(lifeline,), name="interlock-session", daemon=True
            )
            self._thread.start()
        try:
            return await began
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the session, so that everything still held is released at once."""
        if self._ended is None:
            return
        self._stopping = True
        self._ring()
        await asyncio.shield(self._ended)
        if self._thread is not None:
            self._thread.join()
        self._thread = self._task = self._ended = None

    def leave(self, *, leaving: bool = True) -> None:
        """Record in the store that this process is shutting down, so that its death counts against no job.

        Returns at once and may be called from any thread: the heartbeat sees to it, even while the loop is blocked.
        """
        if self._leaving is not leaving:
            self._leaving = leaving
            self._ring()

    async def next_session(self, after: Session, wait: float) -> Session:
        """The session that follows a lost one; ``StoreUnavailableError`` if none can be begun in time.

        ``StoreReplacedError`` if none will follow.
        """
        if self.session is not after:
            return self.session
        after.lost = True
        if self._replaced is not None:
            raise StoreReplacedError(self._replaced.message) from self._replaced
        began = self._await_session()
        self._ring()
        try:
            async with asyncio.timeout(wait):
                return await began
        except TimeoutError:
            raise StoreUnavailableError("No session could be begun in the store.") from None

    def note_blocked(self, seconds: float | None, by: str) -> None:
        """From any thread: the event loop has been blocked for so long, by this; None: it runs again.

        The heartbeat records it in the store, where it has a thread of its own: once, not at every renewal.
        """
        before = self._blockage
        self._blockage = None if seconds is None else (self._clock.monotonic() - seconds, by)
        if (before is None) is not (self._blockage is None):
            self._ring()

    def _await_session(self) -> asyncio.Future[Session]:
        assert self._loop is not None
        began: asyncio.Future[Session] = self._loop.create_future()
        self._awaiting[began] = None
        began.add_done_callback(self._awaiting.pop)
        return began

    def _ring(self) -> None:
        """Wake the heartbeat: there is something to see."""
        if self._heart_loop is not None and self._alarm is not None:
            with contextlib.suppress(RuntimeError):  # the heartbeat's loop has ended already
                self._heart_loop.call_soon_threadsafe(self._alarm.set)

    # -- the heartbeat ---------------------------------------------------------------------------------------------

    def _run_thread(self, sessions: SessionStore) -> None:
        log = self._log = BackgroundLog()
        with log.used(), asyncio.Runner() as runner:
            # The heartbeat may end after the main thread.
            runner.get_loop().set_default_executor(LateExecutor(1, thread_name_prefix="interlock-pool"))
            runner.run(self._keep(sessions))
        log.close(_LOG_SECONDS)

    async def _keep(self, sessions: SessionStore) -> None:
        self._heart_loop = asyncio.get_running_loop()
        self._alarm = asyncio.Event()
        session: Session | None = None
        try:
            while not self._stopping:
                session = await self._begin(sessions)
                if session is not None:
                    await self._renew_until_lost(sessions, session)
        finally:
            if session is not None and not session.lost:
                session.lost = True
                self._tell(self.on_lost, session)
                await self._note_leaving(sessions, session)
                ended, _ = await self._attempt("end", sessions.end, session.id)
                if ended and not self._swept:  # so that processes which never live for long leave nothing either
                    self._alarm.clear()
                    await self._sweep(sessions, self._clock.monotonic() + _LAST_SWEEP)
            await self._attempt("close", sessions.close)
            self._tell(self._finish)

    async def _attempt(self, chore: str, work: Callable[..., Awaitable[object]], *args: object) -> tuple[bool, object]:
        """Do something that may fail without harm, in bounded time, so that the heartbeat continues.

        Whether it was done, and what came of it.
        """
        try:
            async with asyncio.timeout(self._settings.session_ttl / 6):
                return True, await work(*args)
        except Exception as error:  # noqa: BLE001
            emit(_log, logging.WARNING, "session_chore_failed", chore=chore, error=repr(error))
            return False, None

    async def _begin(self, sessions: SessionStore) -> Session | None:
        """Begin a session, however long that takes; the first one only for as long as a caller would wait."""
        first = self._session is None
        give_up, tell_at = self._clock.monotonic() + self.first_wait, -math.inf
        while not self._stopping:
            card = SessionCard(secrets.token_hex(8), socket.gethostname(), os.getpid(), program())
            sent = self._clock.monotonic()
            try:
                await sessions.begin(card, self._settings.session_ttl)
            except Exception as error:  # noqa: BLE001 - the heartbeat continues after any error
                if isinstance(error, StoreReplacedError):
                    self._end_for_good(error)
                    return None
                if first and (not isinstance(error, StoreUnavailableError) or self._clock.monotonic() >= give_up):
                    self._stopping = True
                    self._tell(self._fail, error)
                    return None
                if sent >= tell_at:
                    tell_at = sent + _TELL_EVERY
                    emit(_log, logging.WARNING, "session_begin_failed", error=str(error))
                await self._pause(min(0.25, self._settings.session_ttl / 20))
                continue
            session = Session(card.id, sent + self._settings.session_ttl - self._settings.session_margin)
            self._tell(self._announce, session)
            return session
        return None

    async def _renew_until_lost(self, sessions: SessionStore, session: Session) -> None:
        seconds = self._settings.session_ttl
        pause = seconds / 3
        sweep_at = self._clock.monotonic() + _SWEEP_EVERY
        blocked = False
        while not await self._pause(min(pause, max(0.0, session.deadline - self._clock.monotonic()))):
            sent = self._clock.monotonic()
            try:
                async with asyncio.timeout(min(seconds / 6, max(0.0, session.deadline - sent))):
                    alive = not session.lost and await sessions.renew(session.id, seconds)
            except Exception as error:  # noqa: BLE001 - the heartbeat continues after any error
                emit(_log, logging.WARNING, "session_renewal_failed", session=session.id, error=repr(error))
                alive = self._clock.monotonic() < session.deadline
                if isinstance(error, StoreReplacedError):
                    alive = False
                    self._end_for_good(error)
                pause = seconds / 30
            else:
                if alive:
                    session.deadline = sent + seconds - self._settings.session_margin
                    # A good answer may be old: it was under way while the process stood still.
                    alive = self._clock.monotonic() < session.deadline
                pause = seconds / 3
            if not alive:
                session.lost = True
                self._tell(self.on_lost, session)
                emit(_log, logging.ERROR, "session_lost", session=session.id)
                await self._see_work_stop(session)
                return
            await self._note_leaving(sessions, session)
            if blocked is not (self._blockage is not None):
                blocked = await self._record_blockage(sessions, session, blocked=blocked)
            if sent >= sweep_at:
                all_swept = await self._sweep(sessions, sent + seconds / 6)
                sweep_at = sent + (_SWEEP_EVERY if all_swept else 0.0)
                pause = max(0.0, pause - (self._clock.monotonic() - sent))

    async def _sweep(self, sessions: SessionStore, until: float) -> bool:
        """Sweep in bounded batches while there is more and time is left; whether all is swept.

        Between two batches others have the store for as long as a batch took.
        """
        assert self._alarm is not None
        while True:
            began = self._clock.monotonic()
            self._swept, swept = await self._attempt("sweep", sessions.sweep)
            if not isinstance(swept, int) or swept < _PLENTY:
                return True
            ended = self._clock.monotonic()
            if ended >= until or self._alarm.is_set():
                return False
            await asyncio.sleep(min(ended - began, until - ended))

    def _end_for_good(self, error: StoreReplacedError) -> None:
        """No session will begin in this store again: waiting does not bring it back."""
        self._replaced = error
        self._stopping = True
        self._tell(self._fail, error)
        emit(_log, logging.CRITICAL, "store_replaced", error=str(error))

    async def _note_leaving(self, sessions: SessionStore, session: Session) -> None:
        leaving = self._leaving
        if session.leaving is not leaving:
            noted, _ = await self._attempt("leave", partial(sessions.leave, session.id, leaving=leaving))
            if noted:
                session.leaving = leaving

    async def _record_blockage(self, sessions: SessionStore, session: Session, *, blocked: bool) -> bool:
        """Tell the store whether the event loop is blocked; gives what the store knows then."""
        found = self._blockage
        since, by = (None, "") if found is None else (self._clock.monotonic() - found[0], found[1])
        told, _ = await self._attempt("note_blocked", sessions.note_blocked, session.id, since, by)
        return found is not None if told else blocked

    async def _see_work_stop(self, session: Session) -> None:
        """Wait for the bodies of a lost session to end; deal with those that do not."""
        if self._thread is None:
            return
        until = max(session.deadline, self._clock.monotonic()) + self._settings.session_margin
        while session.at_work and self._clock.monotonic() < until:  # noqa: ASYNC110 - another thread counts it down
            await asyncio.sleep(0.01)
        if session.at_work:
            emit(_log, logging.CRITICAL, "work_overran_session", session=session.id, bodies=session.at_work)
            if self._settings.stuck_work == "exit":
                exit_process(_EXIT_STUCK, lambda: self._log.flush(_LOG_SECONDS))

    async def _pause(self, seconds: float) -> bool:
        """Wait a while, or until the alarm rings; True if the keeper is to stop."""
        assert self._alarm is not None
        if not self._stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._alarm.wait()
            self._alarm.clear()
        return self._stopping

    # -- on the caller's loop --------------------------------------------------------------------------------------

    def _tell(self, what: Callable[..., None], *args: object) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # that loop is closed, and its listeners with it
            self._loop.call_soon_threadsafe(what, *args)

    def _announce(self, session: Session) -> None:
        self._session = session
        for began in list(self._awaiting):
            if not began.done():
                began.set_result(session)
        self.on_begin(session)

    def _fail(self, error: BaseException) -> None:
        for began in list(self._awaiting):
            if not began.done():
                began.set_exception(error)

    def _finish(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


def program() -> str:
    """Return the name of this program."""
    return Path(sys.argv[0] or "python").name[:64] if sys.argv else "python"
