"""Sessions as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.admission import STALE
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.queries import SessionQueries

if TYPE_CHECKING:
    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.sessions import SessionCard

__all__ = ["PostgresSessions"]

_sql = SessionQueries()


class PostgresSessions:
    """Implements the sessions port on one connection. ``own``: its pool, if no one else uses it."""

    def __init__(
        self, connection: OrderedConnection, namespace: str, clock: Clock | None, *, own: Pool | None = None
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock_of(clock)
        self._own = own

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        who = (card.id, card.host, card.pid, card.program)
        await self._connection.fetch(_sql.begin, self._namespace, *who, seconds, self._clock())

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        ((alive,),) = await self._connection.fetch(_sql.renew, self._namespace, id, seconds, self._clock())
        return bool(alive)

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record whether the event loop of the session's process is blocked."""
        await self._connection.fetch(_sql.note_blocked, self._namespace, id, seconds, by, self._clock())

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session, release what it held and notify the next waiters."""
        await self._connection.fetch(_sql.end, self._namespace, id, self._clock(), STALE)

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Record that the process was asked to stop."""
        await self._connection.fetch(_sql.leave, self._namespace, id, leaving, self._clock())

    async def sweep(self) -> int:
        """Remove leftovers of sessions that ended over an hour ago, unused keys, and claims kept long enough."""
        return int((await self._connection.fetch(_sql.sweep, self._namespace, self._clock(), STALE))[0][0])

    async def close(self) -> None:
        """Close the pool if it is owned."""
        if self._own is not None:
            await self._connection.close()
            await self._own.close()
