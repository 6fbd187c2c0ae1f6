"""Cursors as rows, each with its last moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import CursorQueries
from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.postgres.connection import OrderedConnections
    from interlock.clock import Clock
    from interlock.ports.journal import Attribution
    from interlock.settings import Settings

__all__ = ["PostgresCursors"]

_sql = CursorQueries()


class PostgresCursors:
    """Implements the cursors port."""

    def __init__(self, connections: OrderedConnections, settings: Settings, clock: Clock | None) -> None:
        self._connections = connections
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def read(self, name: str) -> CursorView | None:
        """Return the cursor's position."""
        return next(iter(await self._last(name, 1)), None)

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move the cursor if its version is the expected one."""
        given = self._clock()
        args = (move.name, move.expected, move.value, move.id, move.by, MOVES_KEPT, given)
        ((moved, version, value, moved_at, by),) = await self._connections.of(move.name).fetch(
            _sql.move, self._namespace, *args
        )
        if version is None:
            return Overtaken(None)
        view = CursorView(move.name, value, version, moved_at, by)
        return Moved(view) if moved else Overtaken(view)

    async def history(self, name: str) -> Sequence[CursorView]:
        """List its last moves."""
        return await self._last(name, MOVES_KEPT)

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """List cursors by name."""
        return [CursorView(*row) for row in await self._connections.reads.fetch(_sql.list, self._namespace, limit)]

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Remove a cursor and its history."""
        args = (self._namespace, name, write_attribution(attribution), self._clock())
        rows = await self._connections.of(name).fetch(_sql.forget, *args)
        return CursorView(*rows[0]) if rows else None

    async def _last(self, name: str, limit: int) -> Sequence[CursorView]:
        rows = await self._connections.of(name).fetch(_sql.history, self._namespace, name, limit)
        return [CursorView(*row) for row in rows]
