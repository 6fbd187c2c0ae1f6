"""Cursors in a dictionary."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from interlock.ports.cursors import MOVES_KEPT, CursorView, Move, Moved, Overtaken
from interlock.ports.journal import Action, cursor_data, new_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.clock import Clock
    from interlock.ports.journal import Attribution, NewEntry

__all__ = ["MemoryCursors"]


class MemoryCursors:
    """Implements the cursors port for everything in this process."""

    def __init__(self, clock: Clock, next_version: Callable[[], int], record: Callable[[NewEntry], None]) -> None:
        self._now = clock.now
        self._next_version = next_version
        self._record = record
        self._moves: dict[str, deque[tuple[str, CursorView]]] = {}  # name → its last moves by ID, newest first

    async def read(self, name: str) -> CursorView | None:
        """Read a cursor."""
        moves = self._moves.get(name)
        return moves[0][1] if moves else None

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move a cursor if it is still at the expected version."""
        moves = self._moves.get(move.name)
        current = moves[0][1] if moves else None
        if move.expected != (current.version if current else 0):
            done = (view for id, view in moves or () if id == move.id)  # noqa: A001
            return next((Moved(view) for view in done), Overtaken(current))
        view = CursorView(move.name, move.value, self._next_version(), self._now(), move.by)
        if moves is None:
            moves = self._moves[move.name] = deque(maxlen=MOVES_KEPT)
        moves.appendleft((move.id, view))
        return Moved(view)

    async def history(self, name: str) -> Sequence[CursorView]:
        """Return a cursor's last moves."""
        return [view for _, view in self._moves.get(name, ())]

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """List cursors by name."""
        return [self._moves[name][0][1] for name in sorted(self._moves)[:limit]]

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Delete a cursor and its history."""
        view = await self.read(name)
        if view is not None:
            before = cursor_data(view)
            self._record(new_entry(attribution, Action.CURSOR_FORGET, name, before, from_version=view.version))
            del self._moves[name]
        return view
