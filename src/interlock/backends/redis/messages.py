"""The subscribed connection that receives messages for all waiters of a process.

Messages are only hints, so losing the connection costs nothing but time: it reconnects, subscribes, and then every
waiter asks again. The connection is pinged, so that a dead one is noticed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from hiredis import ReplyError

from interlock.backends.redis.credentials import Renewal
from interlock.backends.redis.replies import failure_of
from interlock.backends.redis.scripts import pack
from interlock.errors import StoreError, StoreUnavailableError
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.redis.keyspace import Keyspace
    from interlock.backends.redis.server import Server

__all__ = ["RedisMessages"]

_log = logging.getLogger("interlock.redis")
_PING_EVERY = 5.0


class RedisMessages:
    """Implements the messages port: turns and lost leases of one session."""

    def __init__(self, server: Server, keyspace: Keyspace, timeout: float) -> None:
        self._server = server
        self._keyspace = keyspace
        self._timeout = timeout
        self._session = ""
        self._on_turn: Callable[[str | None], None] = lambda _: None
        self._on_lost: Callable[[str, str], None] = lambda _owner, _why: None
        self._task: asyncio.Task[None] | None = None
        self._failure: StoreError | None = None
        self.ready = asyncio.Event()
        """Set while messages arrive."""

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back when a message for the session arrives. Only one session listens at a time."""
        self._stop_task()
        self._session, self._on_turn, self._on_lost = session, on_turn, on_lost
        self.ready = asyncio.Event()  # the event loop may be another one than before
        self._failure = None
        self._task = asyncio.create_task(self._listen(), name="interlock-redis-messages")
        try:
            async with asyncio.timeout(self._timeout):
                await self.ready.wait()
        except TimeoutError:
            raise self._why_not() from None

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        if session == self._session:
            await self.close()

    def watch(self, *, waiting: bool) -> None:
        """Do nothing: Redis pushes messages."""

    def ask_all(self) -> None:
        """Make every waiter ask again, because messages may have been lost."""
        if self._task is not None:
            self._on_turn(None)

    async def close(self) -> None:
        """Stop listening."""
        task = self._stop_task()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _why_not(self) -> StoreError:
        return self._failure or StoreUnavailableError("Could not subscribe to messages from Redis.")

    def _stop_task(self) -> asyncio.Task[None] | None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        return task

    async def _listen(self) -> None:
        pause = 0.05
        while True:
            try:
                await self._listen_once()
            except Exception as error:  # noqa: BLE001 - messages are only hints; listening is retried
                if self.ready.is_set():
                    pause = 0.05
                self.ready.clear()
                self._failure = error if isinstance(error, StoreError) else None
                emit(_log, logging.WARNING, "listen_failed", error=str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _listen_once(self) -> None:
        """Listen until the connection is lost."""
        # RESP3: with RESP2 a subscribed connection cannot authenticate again.
        raw = await self._server.connect(self._timeout, protocol=3)
        replies = _Replies(self._receive)
        renewal: Renewal | None = None

        async def ask(*words: str) -> None:
            """Send a command and wait for its reply. Replies come in order; messages are not replies."""
            answered = replies.expect()
            raw.write(pack(words))
            try:
                async with asyncio.timeout(self._timeout):
                    await answered
            except TimeoutError:
                replies.lose("no answer in time")
                raise StoreUnavailableError("Redis did not answer in time.") from None

        async def authenticate(user: str | None, password: str) -> None:
            await ask("AUTH", *(() if user is None else (user,)), password)

        try:
            raw.start(replies.on_reply, replies.lose)
            renewal = Renewal.of(self._server.credentials, raw, authenticate)
            await ask("SUBSCRIBE", self._keyspace.channel(self._session))
            self.ready.set()
            # Messages from before are lost, so every waiter asks again.
            self._on_turn(None)
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_PING_EVERY):
                        await asyncio.shield(replies.lost)
                await ask("PING")
        finally:
            if renewal is not None:
                renewal.stop()
            replies.close()
            raw.close()

    def _receive(self, message: str) -> None:
        kind, _, rest = message.partition(" ")
        if kind == "turn":
            self._on_turn(rest)
        elif kind == "lost":
            owner, _, why = rest.partition(" ")
            self._on_lost(owner, why)


class _Replies:
    """Separates messages from replies on a subscribed connection."""

    def __init__(self, receive: Callable[[str], None]) -> None:
        self._receive = receive
        self._expected: list[asyncio.Future[Any]] = []
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the connection is lost."""

    def expect(self) -> asyncio.Future[Any]:
        """Return the future of the reply to the command that is sent next."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost.done():
            answered.set_exception(self.lost.exception() or StoreUnavailableError())
        else:
            self._expected.append(answered)
        return answered

    def on_reply(self, reply: Any) -> None:
        """Handle a message or a reply."""
        if isinstance(reply, list) and reply and reply[0] == "message":
            self._receive(reply[2])
        elif self._expected:
            answered = self._expected.pop(0)
            if answered.done():
                return
            if type(reply) is ReplyError:
                answered.set_exception(failure_of(str(reply)))
            else:
                answered.set_result(reply)

    def lose(self, why: str) -> None:
        """Fail everything that waits, because the connection is lost."""
        failure = StoreUnavailableError(f"Redis is not available: {why}.")
        for waiting in (self.lost, *self._expected):
            if not waiting.done():
                waiting.set_exception(failure)
        self._expected.clear()

    def close(self) -> None:
        """Cancel everything that waits."""
        for waiting in (self.lost, *self._expected):
            if waiting.done():
                waiting.cancelled() or waiting.exception()
            else:
                waiting.cancel()
