"""Durable positions of pollers: the contract that every store keeps.

A position moves by compare-and-set on its version. Versions come from the same growing sequence as fences, so no
version is ever reused, even after a cursor was forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import Attribution

__all__ = ["MOVES_KEPT", "CursorStore", "CursorView", "Move", "Moved", "Overtaken"]

MOVES_KEPT = 20
"""How many moves of a cursor are kept, including the last one."""


class CursorView(NamedTuple):
    """The position of a cursor, now or after an earlier move."""

    name: str
    value: str
    """As JSON."""
    version: int
    moved_at: float
    by: str
    """The process that moved it: program@host:pid."""


class Move(NamedTuple):
    """A step from the version that was read to a new value."""

    name: str
    expected: int
    """The version to replace; 0 if there was no cursor."""
    value: str
    id: str
    """Identifies this move, so that repeating it is safe: it is then reported as moved, not as overtaken."""
    by: str


class Moved(NamedTuple):
    """The move took effect, now or in an earlier attempt."""

    view: CursorView


class Overtaken(NamedTuple):
    """The cursor was not at the expected version; nothing was changed."""

    view: CursorView | None
    """The current position; None if the cursor does not exist."""


class CursorStore(Protocol):
    """Cursors in one store and namespace."""

    async def read(self, name: str) -> CursorView | None:
        """Return the position of a cursor; None if it was never moved."""
        ...

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move the cursor if it is still at the expected version, in one atomic step."""
        ...

    async def history(self, name: str) -> Sequence[CursorView]:
        """List the last moves, newest first, at most ``MOVES_KEPT``."""
        ...

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """List cursors by name as one snapshot; at most ``limit``."""
        ...

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Remove a cursor and its history; return None if it did not exist."""
        ...
