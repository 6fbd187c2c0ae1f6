"""Cursors in Redis: a list of each one's last moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.backends.redis.scripts import Scripts
from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.backends.redis.keyspace import Place
    from interlock.backends.redis.lane import Lane

__all__ = ["RedisCursors", "scripts"]

scripts = Scripts("cursors", "common", "cursors")


class RedisCursors:
    """Keeps the cursors port."""

    def __init__(self, lane: Lane, place: Place) -> None:
        self._lane = lane
        self._here = place.here

    async def read(self, name: str) -> CursorView | None:
        """Where the cursor stands."""
        views = await self._lane.run(scripts.history, *self._here(), name, 1)
        return _view(views[0]) if views else None

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move the cursor if it still stands where it was seen."""
        moved, view = await self._lane.run(
            scripts.move, *self._here(), move.name, move.expected, move.value, move.id, move.by, MOVES_KEPT
        )
        if moved:
            return Moved(_view(view))
        return Overtaken(None if view is None else _view(view))

    async def history(self, name: str) -> Sequence[CursorView]:
        """Its last moves."""
        return [_view(view) for view in await self._lane.run(scripts.history, *self._here(), name, MOVES_KEPT)]

    async def look(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """All cursors by name."""
        return [_view(view) for view in await self._lane.run(scripts.look, *self._here(), limit)]

    async def forget(self, name: str) -> CursorView | None:
        """Remove a cursor and its history."""
        view = await self._lane.run(scripts.forget, *self._here(), name)
        return None if view is None else _view(view)


def _view(reply: Any) -> CursorView:
    name, value, version, moved_at, by = reply
    return CursorView(name, value, int(version), int(moved_at) / 1e6, by)
