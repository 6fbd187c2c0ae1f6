"""Where a fetch starts to scan ready jobs.

Fetched rows stay in the index while an old transaction could see them. So a fetch starts where the last one ended. Jobs
that became ready before that position, or were locked then, are found when a notification names them, when a fetch
finds fewer jobs than requested, and by regular scans from the start.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["LOWEST", "ScanPositions"]

LOWEST = -(2**63)
_FROM_START = 0.1  # scan from the start at least this often
_SHARE = 20  # unless that takes long: then at most one part in so many of the time


class ScanPositions:
    """The scan positions of one kind of fetch: a sort key for each of its pools."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._scan_positions: dict[str, int] = {}
        self._lowered: dict[str, int] = {}
        self._looked_at = -1.0
        self._every = _FROM_START
        self._began = 0.0
        self._from_start = True

    def begin(self, pools: Sequence[str]) -> list[int]:
        """Return where the fetch that begins now starts to scan."""
        self._began = self._monotonic()
        self._from_start = self._began - self._looked_at >= self._every
        self._lowered.clear()
        if self._from_start:
            return [LOWEST] * len(pools)
        return [self._scan_positions.get(pool, LOWEST) for pool in pools]

    def end(self, pools: Sequence[str], marks: Sequence[int]) -> None:
        """Set where the next fetch starts, unless jobs became ready before that meanwhile."""
        now = self._monotonic()
        if self._from_start:
            self._looked_at = now
            self._every = max(_FROM_START, _SHARE * (now - self._began))
        for pool, mark in zip(pools, marks, strict=True):
            self._scan_positions[pool] = min(mark, self._lowered.get(pool, mark))

    def lower(self, pool: str, sort: int = LOWEST) -> None:
        """Note that a job became ready in a pool."""
        self._scan_positions[pool] = min(self._scan_positions.get(pool, sort), sort)
        self._lowered[pool] = min(self._lowered.get(pool, sort), sort)

    def lower_all(self, sort: int = LOWEST) -> None:
        """Note that a job became ready in an unknown pool."""
        for pool in list(self._scan_positions):
            self.lower(pool, sort)
