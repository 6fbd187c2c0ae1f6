"""Limits in Redis. Each operation is one script: one atomic step, one round trip."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from interlock.backends.redis.scripts import Scripts
from interlock.errors import CapabilityError
from interlock.ports import limits as port
from interlock.ports.limits import (
    Finished,
    Full,
    LimitAnswer,
    LimitOverride,
    LimitUser,
    LimitView,
    Plan,
    SessionEnded,
    Turn,
    Turns,
    Use,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.redis.connection import Connection
    from interlock.backends.redis.keyspace import Keyspace
    from interlock.ports.journal import Attribution

__all__ = ["RedisLimits", "scripts"]

scripts = Scripts("limits")
_TURN, _FULL = 1, 2


class RedisLimits:
    """Implements the limits port. Scripts take and return times as whole microseconds."""

    def __init__(self, connection: Connection, keyspace: Keyspace) -> None:
        self._connection = connection
        self._arguments = keyspace.arguments

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Reserve, and start if possible."""
        uses = [word for key, max_count, per in plan.uses for word in (key, max_count, round(per * 1e6))]
        who = (plan.owner, plan.caller, plan.session, "1" if plan.start else "0", port.MAX_ON_A_KEY)
        answer, *rest = await self._connection.run(scripts.ask, *self._arguments(), *who, *uses)
        if answer == _TURN:
            started, at, key, ahead, recheck_in, differs = rest
            when = None if at < 0 else at / 1e6
            return Turn(started == 1, when, key, ahead, math.inf if recheck_in < 0 else recheck_in / 1e6, differs)
        return Full(rest[0]) if answer == _FULL else SessionEnded()

    async def finish(self, session: str, owner: str) -> Finished:
        """Finish a reservation and free its slots."""
        known, started, next_owners = await self._connection.run(scripts.finish, *self._arguments(), session, owner)
        return Finished(known == 1, started == 1, tuple(dict.fromkeys(next_owners)))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the waiting owners whose turn may have come."""
        recheck_in, found = await self._connection.run(scripts.turns, *self._arguments(), session, *owners)
        return Turns(tuple(found), math.inf if recheck_in < 0 else recheck_in / 1e6)

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """Return all reservations of a session."""
        flat = iter(await self._connection.run(scripts.session_requests, *self._arguments(), session))
        return list(zip(flat, flat, strict=True))

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Refuse: there is no journal here."""
        raise _cannot_resize()

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Refuse: there is no journal here."""
        raise _cannot_resize()

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """Return nothing: nobody can set figures here."""
        return ()

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """List limits in use."""
        one = () if key is None else (key,)
        views: list[LimitView] = []
        last: str | None = after
        while last is not None and len(views) < limit:
            now, last, *found = await self._connection.run(
                scripts.list, *self._arguments(), limit - len(views), last, *one
            )
            views += (_view(view, now / 1e6) for view in found)
        return views


def _view(reply: Any, seen_at: float) -> LimitView:
    key, free_since, started, waiting = reply
    at_work = sorted(map(_user, started), key=lambda user: user.at or 0.0)
    free = None if free_since is None else free_since / 1e6
    return LimitView(key, tuple(at_work), tuple(map(_user, waiting)), free, seen_at)


def _user(reply: Any) -> LimitUser:
    owner, caller, session, host, pid, program, max_count, per, asked_at, at, started, waits_for = reply
    when = int(at) / 1e6 if at else None
    figures = (int(max_count), int(per) / 1e6, int(asked_at) / 1e6)
    return LimitUser(owner, caller, session, host, int(pid), program, *figures, when, started == 1, waits_for)


def _cannot_resize() -> CapabilityError:
    return CapabilityError(
        "Limits in Redis cannot be resized at run time.",
        remedy="Use the limits of an app on SQLite or PostgreSQL, or change the figure in the code.",
    )
