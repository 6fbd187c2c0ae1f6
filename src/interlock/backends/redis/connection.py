"""One connection that carries every command of a process, pipelined.

Commands are sent in the order in which they were submitted, together where several are waiting, without waiting for the
replies of earlier ones. A submitted command is sent even if its caller is cancelled, and ends in bounded time. The
connection reconnects by itself: a broken one is dropped, and the next command opens another.

It does not use :class:`interlock.batcher.Batcher`: that sends one batch at a time, and Redis needs no such wait.
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
    from interlock.backends.redis.server import RawConnection, Server

__all__ = ["Connection"]

_LATE = "Redis did not answer in time."
# Bytes, the future of the reply (None: the command loads a script), and the deadline.
_Command = tuple[bytes, "asyncio.Future[Any] | None", float]


class Connection:
    """A queue of commands and the connection that sends them."""

    def __init__(self, server: Server, timeout: float, scripts: Iterable[Script]) -> None:
        self._server = server
        self._timeout = timeout
        self._scripts = tuple(scripts)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._raw: RawConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting: deque[_Command] = deque()
        self._sent: deque[_Command] = deque()
        self._without_script: list[_Command] = []
        """Commands that the server refused because it does not have their scripts any more."""
        self._flushing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._drained: asyncio.Future[None] | None = None
        self._renewal: Renewal | None = None
        self.on_restored: Callable[[], None] = lambda: None
        """Called after reconnecting, if commands were in flight when the connection was lost."""
        self._lost_commands = False

    def run(self, script: Script, *args: Any) -> asyncio.Future[Any]:
        """Run a script; the future is its reply."""
        return self.send("EVALSHA", script.sha, 0, *args)

    def send(self, *words: Any) -> asyncio.Future[Any]:
        """Send a command; the future is its reply. The command is sent even if the future is cancelled."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Any] = loop.create_future()
        command = (pack(words), outcome, loop.time() + self._timeout)
        if self._raw is not None and not self._sent and not self._waiting:
            # No other command is in flight, so there is nothing to wait for.
            self._sent.append(command)
            self._raw.write(command[0])
            if self._alarm is None:
                self._set_alarm(loop)
            return outcome
        self._waiting.append(command)
        if not self._flushing:
            self._flushing = True
            loop.call_soon(self._flush)
        return outcome

    async def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        try:
            if self._loop is not None and (self._waiting or self._sent or self._without_script):
                self._drained = self._loop.create_future()
                await self._drained
        finally:
            connecting, self._connecting = self._connecting, None
            if connecting is not None:
                connecting.cancel()
            self._disconnect()
            for commands in (self._sent, self._without_script, self._waiting):
                self._fail(commands, StoreUnavailableError("The store was closed."))
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = self._drained = self._loop = None
        if connecting is not None:
            await asyncio.gather(connecting, return_exceptions=True)

    # -- sending ---------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send everything that is waiting, with one write."""
        self._flushing = False
        loop = self._loop
        if not self._waiting or loop is None:
            return
        if self._raw is None:
            if self._connecting is None:
                self._connecting = loop.create_task(self._connect(), name="interlock-redis-connect")
        elif not self._without_script:
            self._sent.extend(self._waiting)
            self._raw.write(b"".join([command[0] for command in self._waiting]))
            self._waiting.clear()
        if self._alarm is None:
            self._set_alarm(loop)

    async def _connect(self) -> None:
        assert self._loop is not None
        until = self._loop.time() + self._timeout
        try:
            raw = await self._server.connect(self._timeout)
        except StoreError as error:
            self._connecting = None
            # Commands that were submitted after this attempt started get an attempt of their own.
            tried = [command for command in self._waiting if command[2] <= until]
            self._waiting = deque(command for command in self._waiting if command[2] > until)
            self._fail(tried, error)
            self._flush()
            return
        self._connecting, self._raw = None, raw
        raw.start(self._on_reply, self._on_lost)
        self._renewal = Renewal.of(self._server.credentials, raw, self._authenticate)
        self._load_scripts()
        self._flush()
        if self._lost_commands:
            self._lost_commands = False
            self.on_restored()

    def _load_scripts(self) -> None:
        """Put the commands that load the scripts before everything that waits."""
        assert self._loop is not None
        # Their deadline is that of the first command behind them, which must not wait longer for them.
        deadline = self._waiting[0][2] if self._waiting else self._loop.time() + self._timeout
        self._waiting.extendleft((script.load, None, deadline) for script in self._scripts)

    async def _authenticate(self, user: str | None, password: str) -> None:
        await self.send("AUTH", *(() if user is None else (user,)), password)

    # -- replies ---------------------------------------------------------------------------------------------------

    def _on_reply(self, reply: Any) -> None:
        _, outcome, _ = command = self._sent.popleft()
        if type(reply) is ReplyError:
            self._refused(command, str(reply))
        else:
            if self._without_script:
                # A command that was sent later has taken effect. Sending these again would change the order.
                self._fail(self._without_script, StoreUnavailableError("Redis lost its scripts."))
            if outcome is not None and not outcome.done():
                outcome.set_result(reply)
        if not self._sent:
            self._all_answered()

    def _refused(self, command: _Command, why: str) -> None:
        _, outcome, _ = command
        if why.startswith("NOSCRIPT"):
            self._without_script.append(command)
            return
        failure = failure_of(why)
        _fail_one(outcome, failure)
        if outcome is None or NOT_PRIMARY.search(why):
            self._drop(failure)

    def _all_answered(self) -> None:
        if self._without_script:
            # The server's scripts were flushed. Neither these commands nor any after them ran, so they are sent again.
            self._waiting.extendleft(reversed(self._without_script))
            self._without_script.clear()
            self._load_scripts()
            self._flush()
        elif not self._waiting:
            self._report_drained()

    def _on_lost(self, why: str) -> None:
        self._drop(StoreUnavailableError(f"Redis is not available: {why}."))

    # -- failing ---------------------------------------------------------------------------------------------------

    def _drop(self, failure: StoreError) -> None:
        """Drop the connection and fail every command in flight. Waiting commands are sent on the next connection."""
        self._disconnect()
        self._lost_commands = self._lost_commands or bool(self._sent)
        self._fail(self._sent, failure)
        self._fail(self._without_script, failure)
        for _ in range(len(self._waiting)):
            command = self._waiting.popleft()
            if command[1] is not None:
                self._waiting.append(command)
        self._flush()

    def _disconnect(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
            self._renewal = None
        if self._raw is not None:
            self._raw.close()
            self._raw = None

    def _fail(self, commands: deque[_Command] | list[_Command], failure: StoreError) -> None:
        failed = list(commands)
        commands.clear()
        for _, outcome, _ in failed:
            _fail_one(outcome, failure)
        if not (self._waiting or self._sent or self._without_script):
            self._report_drained()

    def _report_drained(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- deadlines -------------------------------------------------------------------------------------------------

    def _set_alarm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set one timer for all commands, at the deadline of the oldest."""
        oldest = [commands[0][2] for commands in (self._sent, self._without_script, self._waiting) if commands]
        self._alarm = loop.call_at(min(oldest), self._check_deadlines) if oldest else None

    def _check_deadlines(self) -> None:
        self._alarm = None
        loop = self._loop
        if loop is None:
            return
        now = loop.time()
        if any(commands and commands[0][2] <= now for commands in (self._sent, self._without_script)):
            self._drop(StoreUnavailableError(_LATE))
        late: list[_Command] = []
        while self._waiting and self._waiting[0][2] <= now:
            late.append(self._waiting.popleft())
        self._fail(late, StoreUnavailableError(_LATE))
        if self._alarm is None:
            self._set_alarm(loop)


def _fail_one(outcome: asyncio.Future[Any] | None, failure: StoreError) -> None:
    """Fail one command with an error of its own, because each caller's traceback is added to it.

    The exception is marked as retrieved: a caller that was cancelled never looks at it.
    """
    if outcome is not None and not outcome.done():
        error = type(failure)(failure.message, remedy=failure.remedy)
        error.__cause__ = failure.__cause__
        outcome.set_exception(error)
        outcome.exception()
