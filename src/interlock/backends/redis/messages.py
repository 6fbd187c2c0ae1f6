"""One connection that listens, for all of a process's waiters.

Messages are only hints, so losing the connection costs nothing but time: it is opened anew, subscribes first, and then
everyone is told to ask again. It is pinged, so that one that leads nowhere is noticed.
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

    from interlock.backends.redis.keyspace import Place
    from interlock.backends.redis.server import Server

__all__ = ["RedisMessages"]

_log = logging.getLogger("interlock.redis")
_BEAT = 5.0


class RedisMessages:
    """Keeps the messages port: turns and losses of one session."""

    def __init__(self, server: Server, place: Place, wait: float) -> None:
        self._server = server
        self._place = place
        self._wait = wait
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
        """Call back when a message for the session arrives; no longer for any other."""
        self._stop_task()
        self._session, self._on_turn, self._on_lost = session, on_turn, on_lost
        self.ready = asyncio.Event()  # it may be another event loop than before
        self._failure = None
        self._task = asyncio.create_task(self._listen(), name="interlock-redis-messages")
        try:
            async with asyncio.timeout(self._wait):
                await self.ready.wait()
        except TimeoutError:
            raise self._why_not() from None

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        if session == self._session:
            await self.close()

    def watch(self, *, waiting: bool) -> None:
        """Nothing to look out for: messages arrive."""

    def ask_all(self) -> None:
        """Something may have been missed."""
        if self._task is not None:
            self._on_turn(None)

    async def close(self) -> None:
        """Stop listening."""
        task = self._stop_task()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _why_not(self) -> StoreError:
        return self._failure or StoreUnavailableError("Redis does not let us listen.")

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
            except Exception as error:  # noqa: BLE001 - messages are only hints; whatever failed is tried again
                if self.ready.is_set():
                    pause = 0.05
                self.ready.clear()
                self._failure = error if isinstance(error, StoreError) else None
                emit(_log, logging.WARNING, "listen_failed", error=str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)

    async def _listen_once(self) -> None:
        """Listen until the connection is lost."""
        # By the newer protocol: the older one lets nobody authenticate anew who has subscribed.
        link = await self._server.connect(self._wait, protocol=3)
        replies = _Replies(self._hear)
        renewal: Renewal | None = None

        async def ask(*words: str) -> None:
            """Send a command and wait for its reply; replies come in order, and messages are none."""
            answered = replies.expect()
            link.write(pack(words))
            try:
                async with asyncio.timeout(self._wait):
                    await answered
            except TimeoutError:
                replies.lose("no answer in time")
                raise StoreUnavailableError("Redis did not answer in time.") from None

        async def authenticate(user: str | None, password: str) -> None:
            await ask("AUTH", *(() if user is None else (user,)), password)

        try:
            link.start(replies.on_reply, replies.lose)
            renewal = Renewal.of(self._server.credentials, link, authenticate)
            await ask("SUBSCRIBE", self._place.channel(self._session))
            self.ready.set()
            # Whatever was said while nobody listened is made good by asking.
            self._on_turn(None)
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT):
                        await asyncio.shield(replies.lost)
                await ask("PING")
        finally:
            if renewal is not None:
                renewal.stop()
            replies.close()
            link.close()

    def _hear(self, message: str) -> None:
        kind, _, rest = message.partition(" ")
        if kind == "turn":
            self._on_turn(rest)
        elif kind == "lost":
            owner, _, why = rest.partition(" ")
            self._on_lost(owner, why)


class _Replies:
    """Tells messages from replies on a connection that has subscribed."""

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._expected: list[asyncio.Future[Any]] = []
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the connection is lost."""

    def expect(self) -> asyncio.Future[Any]:
        """The reply to what is sent now."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.lost.done():
            answered.set_exception(self.lost.exception() or StoreUnavailableError())
        else:
            self._expected.append(answered)
        return answered

    def on_reply(self, reply: Any) -> None:
        """Something has arrived."""
        if isinstance(reply, list) and reply and reply[0] == "message":
            self._hear(reply[2])
        elif self._expected:
            answered = self._expected.pop(0)
            if answered.done():
                return
            if type(reply) is ReplyError:
                answered.set_exception(failure_of(str(reply)))
            else:
                answered.set_result(reply)

    def lose(self, why: str) -> None:
        """The connection is lost."""
        failure = StoreUnavailableError(f"Redis is not available: {why}.")
        for waiting in (self.lost, *self._expected):
            if not waiting.done():
                waiting.set_exception(failure)
        self._expected.clear()

    def close(self) -> None:
        """Nobody waits any more."""
        for waiting in (self.lost, *self._expected):
            if waiting.done():
                waiting.cancelled() or waiting.exception()
            else:
                waiting.cancel()
