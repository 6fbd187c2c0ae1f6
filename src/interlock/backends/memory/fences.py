"""The counter of a store: fences of locks and claims, and versions of cursors."""

from __future__ import annotations

__all__ = ["Fences"]


class Fences:
    """A counter. The last number is public, so that a hot path can skip the call."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """Return a number larger than all before."""
        self.last += 1
        return self.last
