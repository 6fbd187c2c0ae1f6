"""Limits as rows. Each operation calls one function in the database: one round trip."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.admission import STALE, TURN, UNLIMITED, Room, WaitKind, room_since
from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.batching import Operation, new_batcher
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import LimitQueries
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

    from interlock.backends.postgres.connection import OrderedConnection, OrderedConnections
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresLimits"]

_sql = LimitQueries()
_ASK, _FINISH = "a", "f"


class _Step(NamedTuple):
    """A request or the end of a reservation, as the functions take it."""

    owner: str
    caller: str
    session: str
    uses: tuple[Use, ...]
    start: bool


class PostgresLimits:
    """Implements the limits port.

    All operations of a process use one connection: those of one owner take effect in order, also with different keys,
    and operations that come at the same time are batched.
    """

    def __init__(self, connections: OrderedConnections, settings: Settings, clock: Clock | None) -> None:
        *_, connection = connections
        self._connections = connections
        self._batcher = new_batcher(partial(self._send, connection), settings.store_wait / 2)
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Make a reservation, and start it if possible."""
        answer, at, key, ahead, recheck_in, differs, _ = await self._batcher.submit(Operation(_ASK, _Step(*plan)))
        if answer == "ended":
            return SessionEnded()
        if answer == "full":
            return Full(key)
        begins_at = None if at is None else seconds(at)
        return Turn(answer == "started", begins_at, key, ahead, math.inf if recheck_in is None else recheck_in, differs)

    async def finish(self, session: str, owner: str) -> Finished:
        """End a reservation."""
        answer, *_, next_owners = await self._batcher.submit(Operation(_FINISH, _Step(owner, "", session, (), False)))
        return Finished(answer != "unknown", answer == "finished", tuple(dict.fromkeys(next_owners)))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Return the reservations whose turn may have come."""
        rows = await self._connections.first.fetch(
            _sql.turns, self._namespace, session, TURN, STALE, self._clock(), list(owners)
        )
        due = tuple(owner for owner, due_in in rows if due_in is not None and due_in <= 0)
        return Turns(due, min((due_in for _, due_in in rows if due_in is not None and due_in > 0), default=math.inf))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """List the reservations of a session."""
        rows = await self._connections.first.fetch(
            _sql.session_requests, self._namespace, session, STALE, self._clock()
        )
        return [(key, owner) for key, owner in rows]

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """List limits in use."""
        rows = await self._connections.reads.fetch(_sql.list, self._namespace, key, limit, STALE, self._clock(), after)
        return [_view(*row) for row in rows]

    async def resize(self, figure: Use, attribution: Attribution) -> LimitOverride | None:
        """Set the figure of a limit."""
        return await self._set(figure.key, attribution, figure.max_count, micros(figure.per))

    async def reset(self, name: str, attribution: Attribution) -> LimitOverride | None:
        """Remove the figure that a person set."""
        return await self._set(name, attribution, None, None)

    async def overrides(self, *, limit: int = 1000) -> Sequence[LimitOverride]:
        """List the figures that people have set."""
        rows = await self._connections.reads.fetch(_sql.overrides, self._namespace, limit)
        return [_override(*row) for row in rows]

    async def _set(
        self, name: str, attribution: Attribution, max_count: int | None, per: int | None
    ) -> LimitOverride | None:
        args = (name, max_count, per, write_attribution(attribution), self._clock())
        ((_, *before),) = await self._connections.first.fetch(_sql.resize, self._namespace, *args)
        return None if before[0] is None else _override(name, *before)

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._batcher.close()

    async def _send(self, connection: OrderedConnection, batch: Sequence[Operation]) -> Sequence[Any]:
        """Call the function for one operation, or send several in one transaction."""
        steps: list[_Step] = [operation.request for operation in batch]
        owners, callers, sessions, uses, starts = (list(column) for column in zip(*steps, strict=True))
        keys, mosts, pers = ([use[i] for some in uses for use in some] for i in range(3))
        limits = (keys, mosts, [micros(per) for per in pers])
        rules = (TURN, STALE, port.MAX_ON_A_KEY)
        if len(batch) > 1:
            kinds = [operation.kind for operation in batch]
            columns = (owners, callers, sessions, starts, list(accumulate(map(len, uses))))
            return await connection.fetch_here(
                _sql.batch, self._namespace, kinds, *columns, *limits, *rules, self._clock()
            )
        (step,) = steps
        if batch[0].kind == _FINISH:
            return await connection.fetch_here(
                _sql.finish, self._namespace, step.session, step.owner, STALE, self._clock()
            )
        who = (step.owner, step.caller, step.session)
        return await connection.fetch_here(_sql.ask, self._namespace, *who, *limits, step.start, *rules, self._clock())


def _override(name: str, max_count: int, per: int, set_by: str, reason: str, set_at: int) -> LimitOverride:
    return LimitOverride(name, max_count, seconds(per), set_by, reason, seconds(set_at))


def _view(key: str, now: int, noted: int | None, uses: str, starts: str, dead: str) -> LimitView:
    started = [
        LimitUser._make((*who, max_count, seconds(per), seconds(asked_at), seconds(at), True, ""))
        for *who, max_count, per, asked_at, at in json.loads(starts)
    ]
    waiting = []
    room = Room(UNLIMITED, 0)
    for *who, max_count, per, asked_at, at, is_started, waits, place in json.loads(uses):
        in_line = waits == WaitKind.SLOT
        figures: tuple[Any, ...] = (max_count, seconds(per), seconds(asked_at), None if in_line else seconds(at))
        user = LimitUser._make((*who, *figures, is_started, place if in_line else ""))
        room = Room(min(room.slots, UNLIMITED if per else max_count), room.started + is_started)
        if not is_started:
            waiting.append(user)
        elif per == 0:
            started.append(user)
    awaited = room.free > 0 and any(user.waits_for == key for user in waiting)
    since = seconds(room_since(noted or 0, room, json.loads(dead))) if awaited else None
    return LimitView(key, tuple(sorted(started, key=lambda user: user.at or 0)), tuple(waiting), since, seconds(now))
