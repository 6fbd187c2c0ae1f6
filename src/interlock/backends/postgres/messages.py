"""Messages by LISTEN and NOTIFY, or by polling where notifications do not arrive.

Leases taken by force are also polled for where notifications arrive: occasionally, and when some may have been missed.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.backends.postgres.listener import Listener
from interlock.backends.postgres.queries import MessageQueries
from interlock.errors import InterlockError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.server import Server
    from interlock.ports.leases import Turns
    from interlock.settings import Settings

__all__ = ["PostgresMessages"]

_sql = MessageQueries()
_POLL = 0.25  # how often to poll where no notifications arrive, while a caller waits
_POLL_IDLE = 1.0  # and while none does, for leases taken by force


class PostgresMessages:
    """Implements the messages port. Listens on ``server`` and polls through ``connection``."""

    def __init__(self, server: Server, connection: OrderedConnection, settings: Settings) -> None:
        self._connection = connection
        self._namespace = settings.namespace
        self._wait = settings.store_wait / 2
        self._listener = Listener(server, connection, self._wait, self._hear)
        self._listener.on_verdict = self._look_now
        self._recheck = settings.recheck_interval
        self._waiting = False
        self._session = ""
        self._on_turn: Callable[[str | None], None] = lambda _: None
        self._on_lost: Callable[[str, str], None] = lambda _owner, _why: None
        self._poll: asyncio.Task[None] | None = None
        self._stir = asyncio.Event()
        self.sources: list[Callable[[str], Awaitable[Turns]]] = []
        """Functions that return which owners of a session should ask again; called where no notifications arrive."""

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back when a message for the session arrives."""
        self._session, self._on_turn, self._on_lost = session, on_turn, on_lost
        self._stop_looking()
        self._stir = asyncio.Event()  # the event loop may be another one than before
        self._poll = asyncio.create_task(self._look_out(), name="interlock-poll")
        self._listener.start(f"interlock_{session}")
        try:
            async with asyncio.timeout(self._wait):
                await self._listener.ready.wait()
        except TimeoutError:
            raise StoreUnavailableError("PostgreSQL refused LISTEN.") from None

    async def unlisten(self, session: str) -> None:
        """Stop the callbacks."""
        if session == self._session:
            await self.close()

    def follow(self, channel: str, hear: Callable[[str | None], None]) -> None:
        """Call back with notifications on another channel; with None if some may have been missed."""
        self._listener.add(channel, hear)

    def unfollow(self, channel: str) -> None:
        """Stop the callbacks of a channel."""
        self._listener.remove(channel)

    def watch(self, *, waiting: bool) -> None:
        """Poll more often while a caller waits, where no notifications arrive."""
        self._waiting = waiting

    def yield_connection(self) -> None:
        """Close the listening connection for a while, and poll instead."""
        self._listener.yield_connection()

    async def close(self) -> None:
        """Stop listening and polling."""
        self._stop_looking()
        await self._listener.stop()

    def _stop_looking(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
            self._poll = None

    def _look_now(self) -> None:
        self._stir.set()

    def _hear(self, message: str | None) -> None:
        if message is None:
            self._on_turn(None)
            self._look_now()
            return
        kind, _, rest = message.partition(" ")
        if kind == "turn":
            self._on_turn(rest)
        elif kind == "lost":
            owner, _, why = rest.partition(" ")
            self._on_lost(owner, why)

    async def _look_out(self) -> None:
        pause, look_at = _POLL, 0.0
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stir.wait()
            now, stirred = asyncio.get_running_loop().time(), self._stir.is_set()
            self._stir.clear()
            deaf = self._listener.works is not True
            pause = _POLL if deaf else self._recheck
            if deaf:
                self._listener.missed()
                if not self._waiting and not stirred and now < look_at:
                    continue
                look_at = now + _POLL_IDLE
            try:
                await self._look(turns=deaf and self._waiting)
            except InterlockError:
                pause, look_at = _POLL_IDLE, 0.0

    async def _look(self, *, turns: bool) -> None:
        """Report leases that were taken by force and, with ``turns``, whose turn it is."""
        session = self._session
        found = [await source(session) for source in self.sources] if turns else []
        forced = await self._connection.fetch(_sql.forced, self._namespace, session)
        for owner in (owner for turn in found for owner in turn.owners):
            self._on_turn(owner)
        for owner, why in forced:
            self._on_lost(owner, why)
