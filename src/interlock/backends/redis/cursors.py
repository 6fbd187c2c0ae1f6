"""Cursors in Redis: a list of the last moves of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.redis.scripts import Scripts
from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.redis.connection import Connection
    from interlock.backends.redis.keyspace import Keyspace
    from interlock.ports.journal import Attribution

__all__ = ["RedisCursors", "scripts"]

scripts = Scripts("cursors")


class RedisCursors:
    """Implements the cursors port."""

    def __init__(self, connection: Connection, keyspace: Keyspace) -> None:
        self._connection = connection
        self._arguments = keyspace.arguments

    async def read(self, name: str) -> CursorView | None:
        """Read a cursor."""
        views = await self._connection.run(scripts.history, *self._arguments(), name, 1)
        return _view(views[0]) if views else None

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move a cursor if it is still at the expected version."""
        moved, view = await self._connection.run(
            scripts.move, *self._arguments(), move.name, move.expected, move.value, move.id, move.by, MOVES_KEPT
        )
        if moved:
            return Moved(_view(view))
        return Overtaken(None if view is None else _view(view))

    async def history(self, name: str) -> Sequence[CursorView]:
        """Return a cursor's last moves."""
        return [
            _view(view) for view in await self._connection.run(scripts.history, *self._arguments(), name, MOVES_KEPT)
        ]

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """List cursors by name."""
        return [_view(view) for view in await self._connection.run(scripts.list, *self._arguments(), limit)]

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Delete a cursor and its history."""
        view = await self._connection.run(scripts.forget, *self._arguments(), name)
        return None if view is None else _view(view)


def _view(reply: Any) -> CursorView:
    name, value, version, moved_at, by = reply
    return CursorView(name, value, int(version), int(moved_at) / 1e6, by)
