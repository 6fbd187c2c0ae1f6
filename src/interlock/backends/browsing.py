"""Lists that are merged from several sources, each of which reads a bounded number of rows.

A source returns what it found and how far it has read. Only IDs that all sources have passed can be shown, so that the
next page misses nothing and repeats nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MAX_AT_ONCE", "SECONDS", "Found", "merged"]

SECONDS = 0.06
"""After so many seconds no third scan is started. The first reads few rows; the second finds what it missed."""
MAX_AT_ONCE = 10_000
"""Up to so many rows of one state are read at once. Beyond that a list is made by scanning IDs."""


class Found(NamedTuple):
    """The IDs that a source found, largest first."""

    ids: Iterable[int]
    floor: int | None
    """It has read all IDs from this one on; None if it has read all."""


def merged(found: Iterable[Found], limit: int) -> tuple[list[int], int | None]:
    """Return the largest IDs that can be shown, and the ID below which to continue; None if there are no more."""
    sources = list(found)
    floor = max((source.floor for source in sources if source.floor is not None), default=None)
    ids = sorted({number for source in sources for number in source.ids if floor is None or number >= floor})
    ids.reverse()
    if len(ids) > limit:
        return ids[:limit], ids[limit - 1]
    return ids, floor
