"""Sessions in Redis: one sorted set of their expiries, and a hash with the details of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.redis import claims, limits
from interlock.backends.redis.scripts import Scripts

if TYPE_CHECKING:
    from interlock.backends.redis.connection import Connection
    from interlock.backends.redis.keyspace import Keyspace
    from interlock.ports.sessions import SessionCard

__all__ = ["RedisSessions", "scripts"]

scripts = Scripts("sessions")
_MAX_BATCH = 1000


class RedisSessions:
    """Implements the sessions port on one connection."""

    def __init__(self, connection: Connection, keyspace: Keyspace, *, owns_connection: bool = False) -> None:
        self._connection = connection
        self._keyspace = keyspace
        self._owns_connection = owns_connection

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        who = (card.id, card.host, card.pid, card.program)
        await self._connection.run(scripts.begin, *self._keyspace.arguments(), *who, round(seconds * 1e6))

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        return bool(await self._connection.run(scripts.renew, *self._keyspace.arguments(), id, round(seconds * 1e6)))

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Do nothing: Redis holds no jobs that could wait for the event loop."""

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session, then free what it held, a bounded number of items at a time."""
        for end in (scripts.end, limits.scripts.end):
            while await self._connection.run(end, *self._keyspace.arguments(), id, _MAX_BATCH):
                pass

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Do nothing: Redis holds no jobs that a crash could count against."""

    async def sweep(self) -> int:
        """Delete sessions that ended more than an hour ago, stale reservations, and claims past their retention."""
        swept = 0
        for sweep in (limits.scripts.sweep, scripts.sweep, claims.scripts.sweep):
            swept += int(await self._connection.run(sweep, *self._keyspace.arguments(), _MAX_BATCH))
        return swept

    async def close(self) -> None:
        """Close the connection, if it belongs to these sessions alone."""
        if self._owns_connection:
            await self._connection.close()
