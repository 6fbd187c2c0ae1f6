"""The connections that all operations of a process share.

There are at most ``size`` of them. An operation takes an idle one, opens one if there is room, or waits its turn. When
the server refuses another connection, operations share those that are open. Idle connections are closed after a few
seconds, sooner if the server has recently refused one; the last one stays.

A caller that keeps a connection for longer (a fenced transaction, a snapshot, a long list of jobs) always leaves one
for short operations, which never wait for a second connection while they have one. So no operation waits for itself.
A cycle among callers that each keep a connection and want another is found when it closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import asyncpg

from interlock.errors import StoreUnavailableError
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from interlock.backends.postgres.server import Server

__all__ = ["Pool"]

_log = logging.getLogger("interlock.postgres")
_IDLE_SECONDS = 5.0
_IDLE_SECONDS_WHEN_FULL = 0.5
_FULL_SECONDS = 30.0  # how long after a refusal the server counts as full
_RETRY_SECONDS = 0.25
_CLOSE_SECONDS = 1.0


class _Member:
    """An open connection."""

    __slots__ = ("connection", "idle_since", "number")

    def __init__(self, connection: Any, number: int) -> None:
        self.connection = connection
        self.number = number
        self.idle_since = 0.0


class _Waiter:
    """An operation that waits for a connection. The answer is a connection, or None if it may open one."""

    __slots__ = ("answer", "hold", "number", "task")

    def __init__(self, number: int, hold: bool, answer: asyncio.Future[_Member | None]) -> None:
        self.number = number
        self.hold = hold
        self.task = asyncio.current_task() if hold else None
        self.answer = answer


class Pool:
    """Up to ``size`` connections for one event loop at a time. After :meth:`close` another one can use it."""

    def __init__(self, server: Server, size: int) -> None:
        self.server = server
        self.size = size
        self.on_starved: Callable[[], None] = lambda: None
        """Called when the server refused a connection and none is open here."""
        self.refusals = 0
        """How often the server refused a connection because it had too many."""
        self._refused = LastingFailure()
        self._members: set[_Member] = set()
        self._idle: list[_Member] = []
        self._closing: set[asyncio.Future[Any]] = set()
        self._waiters: list[_Waiter] = []
        self._keepers: dict[_Member, asyncio.Task[Any] | None] = {}
        self._opening = 0
        self._numbers = 0
        self._tickets = 0
        self._refused_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0  # uvloop's handles do not tell it if it is less than a millisecond away
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life = 0

    @property
    def open(self) -> int:
        """How many connections are open."""
        return len(self._members)

    @property
    def in_use(self) -> int:
        """How many of them are in use."""
        return len(self._members) - len(self._idle)

    @property
    def roomy(self) -> bool:
        """Whether another connection may be opened."""
        return self._may_open

    @contextlib.asynccontextmanager
    async def lent(self, give_up: float, *, hold: bool = False) -> AsyncGenerator[Any]:
        """Lend a connection. ``hold``: for longer than one statement, in which case one is left for the others.

        Raises ``TimeoutError`` if none could be had by the time ``give_up`` of the event loop.
        """
        life = self._life
        member = await self._take(give_up, hold)
        if hold:
            self._keepers[member] = asyncio.current_task()
        try:
            yield member.connection
        except (asyncio.CancelledError, GeneratorExit):
            # The connection may be in the middle of a statement. Terminating it needs no answer from the server.
            member.connection.terminate()
            raise
        finally:
            self._keepers.pop(member, None)
            if life == self._life:
                self._put_back(member)
            else:
                member.connection.terminate()

    def give_up_idle(self) -> None:
        """Close all idle connections but one, so that another part of the process, or another process, can open one."""
        for member in self._idle[1:]:
            self._drop(member)
        self._plan()

    def share(self) -> None:
        """Close idle connections, from any thread."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # that loop has ended, and its connections with it
                loop.call_soon_threadsafe(self.give_up_idle)

    async def close(self) -> None:
        """Close all connections. Those in use are closed when they are returned."""
        self._life += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.answer.done():
                waiter.answer.set_exception(StoreUnavailableError("The store was closed meanwhile."))
        for member in list(self._idle):
            self._drop(member)
        self._members.clear()
        if self._closing:
            await asyncio.wait(self._closing)
        self._refused_at, self._loop = None, None

    # -- taking ------------------------------------------------------------------------------------------------------

    async def _take(self, give_up: float, hold: bool) -> _Member:
        self._loop = loop = asyncio.get_running_loop()
        self._tickets += 1
        ticket = self._tickets
        while True:
            if loop.time() >= give_up:
                raise TimeoutError("no answer in time")
            if not any(waiter.number < ticket and (hold or not waiter.hold) for waiter in self._waiters):
                member = self._pick(hold)
                if member is not None:
                    return member
                if self._may_open and (member := await self._open(give_up, hold)) is not None:
                    return member
                if self._may_open:
                    continue
            member = await self._wait(ticket, give_up, hold)
            if member is not None:
                return member

    def _pick(self, hold: bool) -> _Member | None:
        """Pick an idle connection: the oldest, so that the others stay idle and can be closed."""
        for member in list(self._idle):
            if member.connection.is_closed():
                self._forget(member)
        if not self._idle or (hold and len(self._members) - len(self._keepers) < 2):
            return None
        member = self._idle.pop(0)
        if hold:
            self._keepers[member] = None
        return member

    @property
    def _may_open(self) -> bool:
        if len(self._members) + self._opening >= self.size:
            return False
        return self._refused_at is None or self._now() >= self._refused_at + _RETRY_SECONDS

    async def _open(self, give_up: float, hold: bool) -> _Member | None:
        """Open another connection. Return None if the server has too many, or if the connection is left for others."""
        life = self._life
        self._opening += 1
        try:
            connection = await self.server.connect(give_up - self._now())
        except asyncpg.TooManyConnectionsError as error:
            self._note_refusal(error)
            return None
        finally:
            self._opening -= 1
            self._serve()
        if life != self._life:
            connection.terminate()
            raise StoreUnavailableError("The store was closed meanwhile.")
        self._numbers += 1
        member = _Member(connection, self._numbers)
        self._members.add(member)
        if self._refused.over():
            emit(
                _log, logging.INFO, "connection_refused_over", times=self._refused.times, seconds=self._refused.seconds
            )
        if hold and len(self._members) - len(self._keepers) < 2:
            self._put_back(member)
            return None
        if hold:
            self._keepers[member] = None
        return member

    async def _wait(self, ticket: int, give_up: float, hold: bool) -> _Member | None:
        assert self._loop is not None
        waiter = _Waiter(ticket, hold, self._loop.create_future())
        self._check_cycle(waiter)
        place = sum(other.number < ticket for other in self._waiters)
        self._waiters.insert(place, waiter)
        self._plan()
        try:
            async with asyncio.timeout_at(give_up):
                return await waiter.answer
        except BaseException as error:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
            elif waiter.answer.done() and not waiter.answer.cancelled() and waiter.answer.exception() is None:
                member = waiter.answer.result()
                if member is not None:
                    self._keepers.pop(member, None)
                    self._put_back(member)
                else:
                    self._serve()
            if isinstance(error, TimeoutError):
                raise self._none_came(hold) from None
            raise

    def _none_came(self, hold: bool) -> Exception:
        if self._refused.error and not self._members:
            refused: Exception = asyncpg.TooManyConnectionsError(self._refused.error)
            return refused
        kept = f", {len(self._keepers)} of them by fenced transactions and the like" if self._keepers else ""
        return StoreUnavailableError(
            f"No connection to PostgreSQL became free in time: {len(self._members)} of {self.size} are open{kept}.",
            remedy="Raise the setting connections" + (" or keep transactions short." if hold else "."),
        )

    def _check_cycle(self, waiter: _Waiter) -> None:
        """Refuse a wait that only other waits of this kind could end."""
        if not waiter.hold:
            return
        waiting = {waiter.task, *(other.task for other in self._waiters if other.hold)}
        if waiter.task in self._keepers.values() and set(self._keepers.values()) <= waiting:
            raise StoreUnavailableError(
                f"All {len(self._keepers)} connections for fenced transactions and the like are kept by callers that"
                " wait for another one.",
                remedy="Raise the setting connections, or open fewer such transactions inside each other.",
            )

    # -- putting back ------------------------------------------------------------------------------------------------

    def _put_back(self, member: _Member) -> None:
        if member.connection.is_closed():
            self._forget(member)
        elif member in self._members:
            member.idle_since = self._now()
            self._idle.append(member)
            self._idle.sort(key=_number)
        self._serve()

    def _serve(self) -> None:
        """Give free connections to waiters, in order."""
        for waiter in list(self._waiters):
            if waiter.answer.done():
                self._waiters.remove(waiter)
                continue
            member = self._pick(waiter.hold)
            if member is not None or self._may_open:
                self._waiters.remove(waiter)
                waiter.answer.set_result(member)
                if member is None:
                    break  # it opens one, and serves the others afterwards
        self._plan()

    def _forget(self, member: _Member) -> None:
        self._members.discard(member)
        if member in self._idle:
            self._idle.remove(member)

    def _drop(self, member: _Member) -> None:
        self._forget(member)
        closing = asyncio.ensure_future(_close(member.connection))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _note_refusal(self, error: Exception) -> None:
        self.refusals += 1
        self._refused_at = self._now()
        if self._refused.failed(error):
            emit(
                _log,
                logging.WARNING,
                "connection_refused",
                error=self._refused.error,
                open=len(self._members),
                times=self._refused.times,
                seconds=self._refused.seconds,
                remedy="raise max_connections on the server, or lower the setting connections",
            )
        if not self._members:
            self.on_starved()

    def _plan(self) -> None:
        """Schedule the closing of idle connections and the next attempt of waiters to open one."""
        if self._loop is None or (len(self._idle) < 2 and not self._waiters):
            return  # a timer that is left finds nothing to do
        now = self._now()
        times = [member.idle_since + self._idle_seconds for member in self._idle[1:]]
        if self._waiters and self._refused_at is not None and now < (retry_at := self._refused_at + _RETRY_SECONDS):
            times.append(retry_at)
        if not times:
            return
        at = max(now, min(times))
        if self._timer is not None:
            if self._timer_at <= at:
                return  # it plans again when it has run; a statement that returns its connection costs no timer
            self._timer.cancel()
        self._timer, self._timer_at = self._loop.call_at(at, self._on_time), at

    @property
    def _idle_seconds(self) -> float:
        full = self._refused_at is not None and self._now() < self._refused_at + _FULL_SECONDS
        return _IDLE_SECONDS_WHEN_FULL if full else _IDLE_SECONDS

    def _on_time(self) -> None:
        self._timer = None
        now = self._now()
        for member in self._idle[1:]:
            if now >= member.idle_since + self._idle_seconds:
                self._drop(member)
        self._serve()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _number(member: _Member) -> int:
    return member.number


async def _close(connection: Any) -> None:
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except Exception:  # noqa: BLE001 - a connection that cannot be closed is terminated
        connection.terminate()
