"""Limits as rows. Each operation is one call of a function in the database, one round trip."""

from __future__ import annotations

import json
import math
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.admission import STALE, TURN, UNLIMITED, Room, WaitKind, room_since
from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.batching import Operation, new_batcher
from interlock.backends.postgres.given import given_by
from interlock.backends.statements import Statements
from interlock.ports import limits as port
from interlock.ports.limits import (
    Finished,
    Full,
    LimitAnswer,
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

    from interlock.backends.postgres.lane import Lane, Lanes
    from interlock.clock import Clock
    from interlock.settings import Settings

__all__ = ["PostgresLimits"]

_sql = Statements("interlock.backends.postgres", "limits")
_ASK, _FINISH = "a", "f"


class _Step(NamedTuple):
    """A request or an end, as the functions take it."""

    owner: str
    caller: str
    session: str
    uses: tuple[Use, ...]
    start: bool


class PostgresLimits:
    """Keeps the limits port.

    All operations of a process take one connection: those of one owner take effect in order, whatever their keys, and
    those that come together go together.
    """

    def __init__(self, lanes: Lanes, settings: Settings, clock: Clock | None) -> None:
        *_, lane = lanes
        self._lanes = lanes
        self._batcher = new_batcher(partial(self._send, lane), settings.store_wait / 2)
        self._namespace = settings.namespace
        self._given = given_by(clock)

    async def ask(self, plan: Plan) -> LimitAnswer:
        """Reserve, and start if that is possible."""
        answer, at, key, ahead, look_again, differs, _ = await self._batcher.submit(Operation(_ASK, _Step(*plan)))
        if answer == "ended":
            return SessionEnded()
        if answer == "full":
            return Full(key)
        begins_at = None if at is None else seconds(at)
        return Turn(answer == "started", begins_at, key, ahead, math.inf if look_again is None else look_again, differs)

    async def finish(self, session: str, owner: str) -> Finished:
        """Free what a reservation had."""
        answer, *_, next_owners = await self._batcher.submit(Operation(_FINISH, _Step(owner, "", session, (), False)))
        return Finished(answer != "unknown", answer == "finished", tuple(dict.fromkeys(next_owners)))

    async def turns(self, session: str, owners: Sequence[str]) -> Turns:
        """Whose turn may have come."""
        rows = await self._lanes.first.fetch(
            _sql.turns, self._namespace, session, TURN, STALE, self._given(), list(owners)
        )
        due = tuple(owner for owner, due_in in rows if due_in is not None and due_in <= 0)
        return Turns(due, min((due_in for _, due_in in rows if due_in is not None and due_in > 0), default=math.inf))

    async def session_requests(self, session: str) -> Sequence[tuple[str, str]]:
        """All reservations of a session."""
        rows = await self._lanes.first.fetch(_sql.session_requests, self._namespace, session, STALE, self._given())
        return [(key, owner) for key, owner in rows]

    async def list(self, key: str | None = None, *, limit: int = 1000, after: str = "") -> Sequence[LimitView]:
        """Limits in use."""
        rows = await self._lanes.aside.fetch(_sql.look, self._namespace, key, limit, STALE, self._given(), after)
        return [_view(*row) for row in rows]

    async def close(self) -> None:
        """Finish what was handed in."""
        await self._batcher.close()

    async def _send(self, lane: Lane, batch: Sequence[Operation]) -> Sequence[Any]:
        """One alone by the short way, several in one transaction."""
        steps: list[_Step] = [operation.want for operation in batch]
        owners, callers, sessions, uses, starts = (list(column) for column in zip(*steps, strict=True))
        keys, mosts, pers = ([use[i] for some in uses for use in some] for i in range(3))
        limits = (keys, mosts, [micros(per) for per in pers])
        rules = (TURN, STALE, port.MOST_ON_A_KEY)
        if len(batch) > 1:
            kinds = [operation.kind for operation in batch]
            columns = (owners, callers, sessions, starts, list(accumulate(map(len, uses))))
            return await lane.fetch_here(_sql.batch, self._namespace, kinds, *columns, *limits, *rules, self._given())
        (step,) = steps
        if batch[0].kind == _FINISH:
            return await lane.fetch_here(_sql.finish, self._namespace, step.session, step.owner, STALE, self._given())
        who = (step.owner, step.caller, step.session)
        return await lane.fetch_here(_sql.ask, self._namespace, *who, *limits, step.start, *rules, self._given())


def _view(key: str, now: int, noted: int | None, uses: str, starts: str, dead: str) -> LimitView:
    started = [
        LimitUser._make((*who, most, seconds(per), seconds(asked_at), seconds(at), True, ""))
        for *who, most, per, asked_at, at in json.loads(starts)
    ]
    waiting = []
    room = Room(UNLIMITED, 0)
    for *who, most, per, asked_at, at, is_started, waits, place in json.loads(uses):
        in_line = waits == WaitKind.SLOT
        figures: tuple[Any, ...] = (most, seconds(per), seconds(asked_at), None if in_line else seconds(at))
        user = LimitUser._make((*who, *figures, is_started, place if in_line else ""))
        room = Room(min(room.slots, UNLIMITED if per else most), room.started + is_started)
        if not is_started:
            waiting.append(user)
        elif per == 0:
            started.append(user)
    awaited = room.free > 0 and any(user.waits_for == key for user in waiting)
    since = seconds(room_since(noted or 0, room, json.loads(dead))) if awaited else None
    return LimitView(key, tuple(sorted(started, key=lambda user: user.at or 0)), tuple(waiting), since, seconds(now))
