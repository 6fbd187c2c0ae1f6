"""How long a worker may take to start jobs that have a rate or cooldown."""

from __future__ import annotations

__all__ = ["StartAllowance"]

_FIRST, _LEAST, _MOST = 0.25, 0.02, 5.0


class StartAllowance:
    """Seconds from asking the store for such jobs to starting their handlers, by what was measured lately.

    The store counts each start as that much later, so a generous allowance slows a pace down, and a tight one has jobs
    returned that would start too late. Twice the longest of the last few starts is neither.
    """

    def __init__(self) -> None:
        self._longest = _FIRST  # the first fetches of a process also open connections

    @property
    def seconds(self) -> float:
        """What to ask for."""
        return min(max(self._longest * 2, _LEAST), _MOST)

    def measured(self, seconds: float) -> None:
        """A start took so long, in time or not."""
        self._longest = max(seconds, self._longest / 2)
