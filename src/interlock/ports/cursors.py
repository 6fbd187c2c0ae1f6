"""Durable positions of pollers: the contract that every store keeps.

A position moves by compare-and-set on its version. Versions come from the store's one growing source, as fences do, so
that none ever comes back, also not after a cursor was forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.journal import Attribution

__all__ = ["MOVES_KEPT", "CursorStore", "CursorView", "Move", "Moved", "Overtaken"]

MOVES_KEPT = 20
"""How many moves of a cursor are remembered, the last one included."""


class CursorView(NamedTuple):
    """Where a cursor stands, or stood after one of its moves."""

    name: str
    value: str
    """As JSON."""
    version: int
    moved_at: float
    by: str
    """Who moved it: program@host:pid."""


class Move(NamedTuple):
    """A step from the version that was read to a new value."""

    name: str
    expected: int
    """The version that is to be replaced; 0 if there was no cursor."""
    value: str
    id: str
    """Identifies this move, so that repeating it is harmless: it is then found done, not overtaken."""
    by: str


class Moved(NamedTuple):
    """The move took place, now or when it was asked for before."""

    view: CursorView


class Overtaken(NamedTuple):
    """The cursor was not at the version expected; nothing was changed."""

    view: CursorView | None
    """Where it is; None if there is no such cursor."""


class CursorStore(Protocol):
    """Cursors in one store and namespace."""

    async def read(self, name: str) -> CursorView | None:
        """Where the cursor stands; None if it was never moved."""
        ...

    async def move(self, move: Move) -> Moved | Overtaken:
        """Move the cursor if it still stands where it was seen; one atomic step."""
        ...

    async def history(self, name: str) -> Sequence[CursorView]:
        """Its last moves, the newest first, at most ``MOVES_KEPT``."""
        ...

    async def list(self, *, limit: int = 1000) -> Sequence[CursorView]:
        """All cursors by name, as one snapshot; at most ``limit`` of them."""
        ...

    async def forget(self, name: str, attribution: Attribution) -> CursorView | None:
        """Remove a cursor and its history; None if there was none."""
        ...
