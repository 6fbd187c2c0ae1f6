"""Lists that are put together from several sources, each of which looks at a bounded number of things.

A source says what it found and how far down it has looked. Only what all of them have passed can be shown: whoever
goes on from there misses nothing and sees nothing twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MOST_FEW", "SECONDS", "Found", "merged"]

SECONDS = 0.06
"""After so long no further round of looking for more is begun."""
MOST_FEW = 10_000
"""Up to so many of one kind are looked at all together; beyond that a list is made by walking along the numbers."""


class Found(NamedTuple):
    """Numbers that a source found, the largest first."""

    ids: Iterable[int]
    floor: int | None
    """It has looked at all numbers from this one on; None if at all there are."""


def merged(found: Iterable[Found], limit: int) -> tuple[list[int], int | None]:
    """The largest numbers that can be shown, and below which number to go on; None if there is no more."""
    sources = list(found)
    floor = max((source.floor for source in sources if source.floor is not None), default=None)
    ids = sorted({number for source in sources for number in source.ids if floor is None or number >= floor})
    ids.reverse()
    if len(ids) > limit:
        return ids[:limit], ids[limit - 1]
    return ids, floor
