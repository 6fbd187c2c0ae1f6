"""How fast a worker runs jobs, and so how many to fetch: about one second of work, none behind long jobs."""

from __future__ import annotations

__all__ = ["Throughput"]

_MAX_PREFETCH = 4000
_MIN_FETCH, _MAX_FETCH = 500, 2000
_FETCH_SECONDS = 0.05
_MAX_RUN = 500
_LONG = 0.5
_SAMPLE_SECONDS = 0.005
_SAMPLE_JOBS = 50
_SLICE = 0.001


class Throughput:
    """Two sums that the runners update for each job, sampled before each fetch."""

    __slots__ = ("_concurrency", "_each", "_finished", "_max", "_since", "_spent", "finished", "spent", "until")

    def __init__(self, concurrency: int) -> None:
        self.finished = 0
        """How many handlers have ended."""
        self.spent = 0.0
        """How many seconds they ran, all together."""
        self.until = 0.0
        """When the runners, as a group, have to let other tasks run."""
        self._max = concurrency
        self._each: float | None = None
        self._concurrency = 1.0
        self._since = 0.0
        self._finished = 0
        self._spent = 0.0

    def next_slice(self, now: float) -> None:
        """Let the runners continue for another time slice."""
        if now >= self.until:
            self.until = now + _SLICE

    def sample(self, now: float) -> None:
        """Update the estimates from the jobs that finished since the last sample."""
        jobs, seconds, spent = self.finished - self._finished, now - self._since, self.spent - self._spent
        if not jobs:
            self._since = now
        elif jobs >= _SAMPLE_JOBS or seconds >= _SAMPLE_SECONDS:
            each = spent / jobs
            self._each = each if self._each is None else (self._each + each) / 2
            # The average number of handlers at the same time. Handlers that never await run one after the other.
            concurrency = min(max(spent / max(seconds, 1e-6), 1.0), float(self._max))
            self._concurrency = (self._concurrency + concurrency) / 2
            self._since, self._finished, self._spent = now, self.finished, self.spent

    def stalled(self, seconds: float) -> None:
        """Raise the estimate: prefetched jobs had to wait this long, so jobs take longer than they seemed to."""
        self._each = max(self._each or 0.0, seconds)

    @property
    def prefetch(self) -> int:
        """How many jobs to have in advance, beyond those that can start at once."""
        if self._each is None or self._each >= _LONG:
            return 0
        return int(min(_MAX_PREFETCH, self._concurrency / max(self._each, 1e-6)))

    @property
    def fetch_size(self) -> int:
        """How many jobs to fetch in one step at most: the shorter the jobs, the more."""
        each = _LONG if self._each is None else max(self._each, 1e-6)
        return int(min(_MAX_FETCH, max(_MIN_FETCH, _FETCH_SECONDS * self._concurrency / each)))

    def run_length(self, acknowledging: float) -> int:
        """How many consecutive jobs of one lane to fetch, if an acknowledgement takes this many seconds.

        Each job of a run starts only when the store has acknowledged the one before it.
        """
        if self._each is None or self._each >= _LONG:
            return 1
        return max(1, int(min(_MAX_RUN, 1.0 / max(self._each + acknowledging, 1e-6))))
