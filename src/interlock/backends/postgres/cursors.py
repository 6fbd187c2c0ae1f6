"""Cursors as rows, each with its last moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.postgres.given import given_by
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.statements import Statements
from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.lane import Lanes
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresCursors"]

_sql = Statements("interlock.backends.postgres", "cursors")


class PostgresCursors:
    """Keeps the cursors port."""

    def __init__(self, lanes: Lanes, settings: Settings, clock: Clock | None) -> None:
        self._lanes = lanes
        self._namespace = settings.namespace
        self._given = given_by(clock)

    async def read(self, name: str) -> CursorView | None:
        """Where the cursor stands."""
        return next(iter(await self._last(name, 1)), None)

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move the cursor if it still stands where it was seen."""
        given = self._given()
        args = (move.name, move.expected, move.value, move.id, move.by, MOVES_KEPT, given)
        ((moved, version, value, moved_at, by),) = await self._lanes.of(move.name).fetch(
            _sql.move, self._namespace, *args
        )
        if version is None:
            return Overtaken(None)
        view = CursorView(move.name, value, version, moved_at, by)
        return Moved(view) if moved else Overtaken(view)

    async def history(self, name: str) -> Sequence[CursorView]:
        """Its last moves."""
        return await self._last(name, MOVES_KEPT)

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """All cursors by name."""
        return [CursorView(*row) for row in await self._lanes.aside.fetch(_sql.look, self._namespace, limit)]

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Remove a cursor and its history."""
        args = (self._namespace, name, write_attribution(attribution), self._given())
        rows = await self._lanes.of(name).fetch(_sql.forget, *args)
        return CursorView(*rows[0]) if rows else None

    async def _last(self, name: str, limit: int) -> Sequence[CursorView]:
        rows = await self._lanes.of(name).fetch(_sql.history, self._namespace, name, limit)
        return [CursorView(*row) for row in rows]
