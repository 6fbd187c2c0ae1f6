"""Which entries of the journal a list reads, in the units of the stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.pacing import micros

if TYPE_CHECKING:
    from interlock.ports.journal import JournalFilter, JournalPosition

__all__ = ["JournalRange"]

_LATEST = 2**63 - 1


class JournalRange(NamedTuple):
    """Bounds of a list, in microseconds and by ID."""

    since: int
    until: int
    before_at: int
    before_id: int

    @classmethod
    def of(cls, wanted: JournalFilter, before: JournalPosition | None) -> JournalRange:
        """Return the bounds of a filter and a position. What is absent does not bound the list."""
        return cls(
            since=0 if wanted.since is None else micros(wanted.since),
            until=_LATEST if wanted.until is None else micros(wanted.until),
            before_at=_LATEST if before is None else micros(before.at),
            before_id=_LATEST if before is None else before.id,
        )
