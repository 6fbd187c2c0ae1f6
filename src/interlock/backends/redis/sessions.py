"""Sessions: one sorted set of when each ends, and a hash for who it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.redis import claims, limits
from interlock.backends.redis.scripts import Scripts

if TYPE_CHECKING:
    from interlock.backends.redis.keyspace import Place
    from interlock.backends.redis.lane import Lane
    from interlock.ports.sessions import SessionCard

__all__ = ["RedisSessions", "scripts"]

scripts = Scripts("sessions", "common", "locks", "clear")
_AT_ONCE = 1000


class RedisSessions:
    """Keeps the sessions port on one lane."""

    def __init__(self, lane: Lane, place: Place, *, owns_lane: bool = False) -> None:
        self._lane = lane
        self._place = place
        self._owns_lane = owns_lane

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        who = (card.id, card.host, card.pid, card.program)
        await self._lane.run(scripts.begin, *self._place.here(), *who, round(seconds * 1e6))

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        return bool(await self._lane.run(scripts.renew, *self._place.here(), id, round(seconds * 1e6)))

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Nothing: no jobs are kept here that could wait for it."""

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session at once, then clear what it had, a bounded number of things at a time."""
        for end in (scripts.end, limits.scripts.end):
            while await self._lane.run(end, *self._place.here(), id, _AT_ONCE):
                pass

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Nothing: there are no jobs on Redis that a death could count against."""

    async def sweep(self) -> int:
        """Remove what is left of sessions that ended more than an hour ago, and claims that need not be kept."""
        swept = 0
        for sweep in (limits.scripts.sweep, scripts.sweep, claims.scripts.sweep):
            swept += int(await self._lane.run(sweep, *self._place.here(), _AT_ONCE))
        return swept

    async def close(self) -> None:
        """Close the lane, if it is this one's own."""
        if self._owns_lane:
            await self._lane.close()
