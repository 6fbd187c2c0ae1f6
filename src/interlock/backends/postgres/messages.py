"""Messages by LISTEN and NOTIFY, and where those do not arrive by looking.

What was taken by force is looked for also where they do: when some may have been missed, and now and then.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.backends.postgres.listener import Listener
from interlock.backends.statements import Statements
from interlock.errors import InterlockError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.backends.postgres.lane import Lane, Server
    from interlock.ports.leases import Turns
    from interlock.settings import Settings

__all__ = ["PostgresMessages"]

_sql = Statements("interlock.backends.postgres", "messages")
_POLL = 0.25  # how often to look where no messages arrive, while somebody waits
_POLL_IDLE = 1.0  # and while nobody does, for leases taken by force


class PostgresMessages:
    """Keeps the messages port. ``server`` is where to listen, ``lane`` how to look."""

    def __init__(self, server: Server, lane: Lane, settings: Settings) -> None:
        self._lane = lane
        self._namespace = settings.namespace
        self._wait = settings.store_wait / 2
        self._listener = Listener(server, lane, self._wait, self._hear)
        self._listener.on_verdict = self._look_now
        self._recheck = settings.recheck_interval
        self._waiting = False
        self._session = ""
        self._on_turn: Callable[[str | None], None] = lambda _: None
        self._on_lost: Callable[[str, str], None] = lambda _owner, _why: None
        self._poll: asyncio.Task[None] | None = None
        self._stir = asyncio.Event()
        self.sources: list[Callable[[str], Awaitable[Turns]]] = []
        """Each says which owners of a session should ask again, where no messages arrive."""

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back when a message for the session arrives."""
        self._session, self._on_turn, self._on_lost = session, on_turn, on_lost
        self._stop_looking()
        self._stir = asyncio.Event()  # it may be another event loop than before
        self._poll = asyncio.create_task(self._look_out(), name="interlock-poll")
        self._listener.start(f"interlock_{session}")
        try:
            async with asyncio.timeout(self._wait):
                await self._listener.ready.wait()
        except TimeoutError:
            raise StoreUnavailableError("PostgreSQL does not let us listen.") from None

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        if session == self._session:
            await self.close()

    def follow(self, channel: str, hear: Callable[[str | None], None]) -> None:
        """Hand on what is said on a further channel; None: something may have been said unheard."""
        self._listener.add(channel, hear)

    def unfollow(self, channel: str) -> None:
        """Hand on nothing of it any more."""
        self._listener.remove(channel)

    def watch(self, *, waiting: bool) -> None:
        """Where no messages arrive, look more often while somebody waits."""
        self._waiting = waiting

    def yield_connection(self) -> None:
        """Give up the connection that listens for a while, and look instead."""
        self._listener.yield_connection()

    async def close(self) -> None:
        """Stop listening and looking."""
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
        """Hand on what was taken by force, and with ``turns`` whose turn it is."""
        session = self._session
        found = [await source(session) for source in self.sources] if turns else []
        forced = await self._lane.fetch(_sql.forced, self._namespace, session)
        for owner in (owner for turn in found for owner in turn.owners):
            self._on_turn(owner)
        for owner, why in forced:
            self._on_lost(owner, why)
