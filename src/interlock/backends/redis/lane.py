"""One connection that carries everything a process asks for.

Commands are sent in the order in which they were handed in, together where several are, without waiting for one
another's replies. What was handed in is sent also if its caller is cancelled, and ends in bounded time. A lane mends
itself: a broken connection is dropped, the next command connects anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from hiredis import ReplyError

from interlock.backends.redis.credentials import Renewal
from interlock.backends.redis.replies import NOT_PRIMARY, failure_of
from interlock.backends.redis.scripts import pack
from interlock.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from interlock.backends.redis.scripts import Script
    from interlock.backends.redis.server import Link, Server

__all__ = ["Lane"]

_LATE = "Redis did not answer in time."
# Bytes, who wants the reply (None: loads a script), and when to give up.
_Command = tuple[bytes, "asyncio.Future[Any] | None", float]


class Lane:
    """A queue of commands and the connection that takes them."""

    def __init__(self, server: Server, wait: float, scripts: Iterable[Script]) -> None:
        self._server = server
        self._wait = wait
        self._scripts = tuple(scripts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._link: Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: deque[_Command] = deque()
        self._sent: deque[_Command] = deque()
        self._forgotten: list[_Command] = []
        self._flushing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._renewal: Renewal | None = None
        self.on_restored: Callable[[], None] = lambda: None
        """Called when a connection is there again after one was lost with commands under way."""
        self._lost_some = False

    def run(self, script: Script, *args: Any) -> asyncio.Future[Any]:
        """Run a script; the future is its reply."""
        return self.send("EVALSHA", script.sha, 0, *args)

    def send(self, *words: Any) -> asyncio.Future[Any]:
        """Send a command; the future is its reply. It is sent also if nobody waits for that any more."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        command = (pack(words), outcome, loop.time() + self._wait)
        if self._link is not None and not self._sent and not self._waiting:
            # Nothing is under way that could go along.
            self._sent.append(command)
            self._link.write(command[0])
            if self._alarm is None:
                self._set_alarm(loop)
            return outcome
        self._waiting.append(command)
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        return outcome

    async def close(self) -> None:
        """Finish what was handed in, then close the connection."""
        try:
            if self._loop is not None and (self._waiting or self._sent or self._forgotten):
                self._drained = self._loop.create_future()
                await self._drained
        finally:
            connecting, self._connecting = self._connecting, None
            if connecting is not None:
                connecting.cancel()
            self._unlink()
            for commands in (self._sent, self._forgotten, self._waiting):
                self._fail(commands, StoreUnavailableError("The store was closed."))
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._drained = self._loop = None
        if connecting is not None:
            await asyncio.gather(connecting, return_exceptions=True)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send everything that was handed in up to now, in one go."""
        self._flushing = False
        loop = self._loop
        if not self._waiting or loop is None:
            return
        if self._link is None:
            if self._connecting is None:
                self._connecting = loop.create_task(self._connect(), name="interlock-redis-connect")
        elif not self._forgotten:
            self._sent.extend(self._waiting)
            self._link.write(b"".join([command[0] for command in self._waiting]))
            self._waiting.clear()
        if self._alarm is None:
            self._set_alarm(loop)

    async def _connect(self) -> None:
        assert self._loop is not None
        until = self._loop.time() + self._wait
        try:
            link = await self._server.connect(self._wait)
        except StoreError as error:
            self._connecting = None
            # What was handed in meanwhile is not judged by an attempt that began before it.
            tried = [command for command in self._waiting if command[2] <= until]
            self._waiting = deque(command for command in self._waiting if command[2] > until)
            self._fail(tried, error)
            self._flush()
            return
        self._connecting, self._link = None, link
        link.start(self._on_reply, self._on_lost)
        self._renewal = Renewal.of(self._server.credentials, link, self._authenticate)
        self._load_scripts()
        self._flush()
        if self._lost_some:
            self._lost_some = False
            self.on_restored()

    def _load_scripts(self) -> None:
        """Put the scripts before everything that waits; whoever runs one comes after it."""
        assert self._loop is not None
        # Not later than those behind them, who shall not wait longer for it.
        give_up = self._waiting[0][2] if self._waiting else self._loop.time() + self._wait
        self._waiting.extendleft((script.load, None, give_up) for script in self._scripts)

    async def _authenticate(self, user: str | None, password: str) -> None:
        await self.send("AUTH", *(() if user is None else (user,)), password)

    # -- replies ---------------------------------------------------------------------------------------------------

    def _on_reply(self, reply: Any) -> None:
        _, outcome, _ = command = self._sent.popleft()
        if type(reply) is ReplyError:
            self._refused(command, str(reply))
        else:
            if self._forgotten:
                # Something that was sent later has taken effect: to send these again would change the order.
                self._fail(self._forgotten, StoreUnavailableError("Redis forgot its scripts."))
            if outcome is not None and not outcome.done():
                outcome.set_result(reply)
        if not self._sent:
            self._all_answered()

    def _refused(self, command: _Command, why: str) -> None:
        _, outcome, _ = command
        if why.startswith("NOSCRIPT"):
            self._forgotten.append(command)
            return
        failure = failure_of(why)
        _fail_one(outcome, failure)
        if outcome is None or NOT_PRIMARY.search(why):
            self._drop(failure)

    def _all_answered(self) -> None:
        if self._forgotten:
            # Somebody flushed the scripts. None of these ran, nor did anything after them: they are sent again.
            self._waiting.extendleft(reversed(self._forgotten))
            self._forgotten.clear()
            self._load_scripts()
            self._flush()
        elif not self._waiting:
            self._tell_drained()

    def _on_lost(self, why: str) -> None:
        self._drop(StoreUnavailableError(f"Redis is not available: {why}."))

    # -- failing ---------------------------------------------------------------------------------------------------

    def _drop(self, failure: StoreError) -> None:
        """Give up the connection and everything that was sent on it; what was not is sent on the next one."""
        self._unlink()
        self._lost_some = self._lost_some or bool(self._sent)
        self._fail(self._sent, failure)
        self._fail(self._forgotten, failure)
        for _ in range(len(self._waiting)):
            command = self._waiting.popleft()
            if command[1] is not None:
                self._waiting.append(command)
        self._flush()

    def _unlink(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def _fail(self, commands: deque[_Command] | list[_Command], failure: StoreError) -> None:
        failed = list(commands)
        commands.clear()
        for _, outcome, _ in failed:
            _fail_one(outcome, failure)
        if not (self._waiting or self._sent or self._forgotten):
            self._tell_drained()

    def _tell_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- in bounded time -------------------------------------------------------------------------------------------

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """One alarm for all: set for whoever is the oldest now, and looked at when it rings."""
        oldest = [commands[0][2] for commands in (self._sent, self._forgotten, self._waiting) if commands]
        self._alarm = loop.call_at(min(oldest), self._look_at_clock) if oldest else None

    def _look_at_clock(self) -> None:
        self._alarm = None
        loop = self._loop
        if loop is None:
            return
        now = loop.time()
        if any(commands and commands[0][2] <= now for commands in (self._sent, self._forgotten)):
            self._drop(StoreUnavailableError(_LATE))
        late: list[_Command] = []
        while self._waiting and self._waiting[0][2] <= now:
            late.append(self._waiting.popleft())
        self._fail(late, StoreUnavailableError(_LATE))
        if self._alarm is None:
            self._set_alarm(loop)


def _fail_one(outcome: asyncio.Future[Any] | None, failure: StoreError) -> None:
    """Each gets an error of its own, as each adds where it was raised; nobody minds if it is never looked at."""
    if outcome is not None and not outcome.done():
        error = type(failure)(failure.message, remedy=failure.remedy)
        error.__cause__ = failure.__cause__
        outcome.set_exception(error)
        outcome.exception()
