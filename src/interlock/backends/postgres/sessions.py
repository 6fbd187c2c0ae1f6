"""Sessions as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.admission import STALE
from interlock.backends.postgres.given import given_by
from interlock.backends.statements import Statements

if TYPE_CHECKING:
    from interlock.backends.postgres.lane import Lane
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.sessions import SessionCard

__all__ = ["PostgresSessions"]

_sql = Statements("interlock.backends.postgres", "sessions")


class PostgresSessions:
    """Keeps the sessions port on one lane. ``own``: the lane's connections, if they are nobody else's."""

    def __init__(self, lane: Lane, namespace: str, clock: Clock | None, *, own: Pool | None = None) -> None:
        self._lane = lane
        self._namespace = namespace
        self._given = given_by(clock)
        self._own = own

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        who = (card.id, card.host, card.pid, card.program)
        await self._lane.fetch(_sql.begin, self._namespace, *who, seconds, self._given())

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        ((alive,),) = await self._lane.fetch(_sql.renew, self._namespace, id, seconds, self._given())
        return bool(alive)

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record whether the event loop of the session's process is blocked."""
        await self._lane.fetch(_sql.note_blocked, self._namespace, id, seconds, by, self._given())

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session, free what it held and tell whoever is next."""
        await self._lane.fetch(_sql.end, self._namespace, id, self._given(), STALE)

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Note that the process was told to end."""
        await self._lane.fetch(_sql.leave, self._namespace, id, leaving, self._given())

    async def sweep(self) -> int:
        """Remove what is left of sessions that ended more than an hour ago, idle keys, and claims kept long enough."""
        return int((await self._lane.fetch(_sql.sweep, self._namespace, self._given(), STALE))[0][0])

    async def close(self) -> None:
        """Close the lane, if it is this one's own."""
        if self._own is not None:
            await self._lane.close()
            await self._own.close()
