"""The time a worker takes to start a job that has a rate or cooldown."""

from __future__ import annotations

__all__ = ["StartLatency"]

_INITIAL, _MIN, _MAX = 0.25, 0.02, 5.0


class StartLatency:
    """Seconds from the request to the store until the handler starts, estimated from recent starts.

    The store counts each start as that much later. A generous bound slows the pace down; with a tight one, jobs that
    would start too late are returned. Twice the longest of the last few starts is neither.
    """

    def __init__(self) -> None:
        self._longest = _INITIAL  # the first fetches of a process also open connections

    @property
    def bound(self) -> float:
        """The seconds within which the worker promises to start the job."""
        return min(max(self._longest * 2, _MIN), _MAX)

    def observe(self, seconds: float) -> None:
        """Record how long a start took, in time or not."""
        self._longest = max(seconds, self._longest / 2)
