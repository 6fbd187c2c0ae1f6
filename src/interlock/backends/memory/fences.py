"""The one growing number of a store: fences of locks and claims and versions of cursors are drawn from it."""

from __future__ import annotations

__all__ = ["Fences"]


class Fences:
    """Counts up. What was drawn last is public, for those in a hurry."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """A number larger than all before."""
        self.last += 1
        return self.last
