"""Where to begin looking for ready jobs.

Rows that were fetched stay in the index while an old transaction could see them. So a fetch begins where the last one
ended. What became ready before that, or was locked then, is found when news tells of it, when a fetch finds less than
it wants, and by looking from the start now and then.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LOWEST", "Marks"]

LOWEST = -(2**63)
_FROM_START = 0.1  # how often to look from the start, at least
_SHARE = 20  # unless that takes long: then it may cost this part of the time


class Marks:
    """For one fetcher: a sort key for each of its pools."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._marks: dict[str, int] = {}
        self._lowered: dict[str, int] = {}
        self._looked_at = -1.0
        self._every = _FROM_START
        self._began = 0.0
        self._from_start = True

    def begin(self, pools: Sequence[str]) -> list[int]:
        """Where the fetch that begins now starts looking."""
        self._began = self._monotonic()
        self._from_start = self._began - self._looked_at >= self._every
        self._lowered.clear()
        if self._from_start:
            return [LOWEST] * len(pools)
        return [self._marks.get(pool, LOWEST) for pool in pools]

    def end(self, pools: Sequence[str], marks: Sequence[int]) -> None:
        """Where the next one does, but for what was heard of meanwhile."""
        now = self._monotonic()
        if self._from_start:
            self._looked_at = now
            self._every = max(_FROM_START, _SHARE * (now - self._began))
        for pool, mark in zip(pools, marks, strict=True):
            self._marks[pool] = min(mark, self._lowered.get(pool, mark))

    def lower(self, pool: str, sort: int = LOWEST) -> None:
        """Something became ready there."""
        self._marks[pool] = min(self._marks.get(pool, sort), sort)
        self._lowered[pool] = min(self._lowered.get(pool, sort), sort)

    def lower_all(self, sort: int = LOWEST) -> None:
        """Something became ready somewhere."""
        for pool in list(self._marks):
            self.lower(pool, sort)
