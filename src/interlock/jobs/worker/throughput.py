"""How fast a worker works, and so how much to fetch in advance: about a second's work, and nothing behind long jobs."""

from __future__ import annotations

__all__ = ["Pace"]

_MOST_AHEAD = 4000
_LEAST_FETCH, _MOST_FETCH = 500, 2000
_FETCH_SECONDS = 0.05
_MOST_RUN = 500
_LONG = 0.5
_SAMPLE_SECONDS = 0.005
_SAMPLE_JOBS = 50
_SLICE = 0.001


class Pace:
    """Fed by the runners with two numbers for each job; looked at before each fetch."""

    __slots__ = ("_at_once", "_each", "_finished", "_most", "_since", "_spent", "finished", "spent", "until")

    def __init__(self, concurrency: int) -> None:
        self.finished = 0
        self.spent = 0.0
        self.until = 0.0
        """When the runners, all together, have to let others run."""
        self._most = concurrency
        self._each: float | None = None
        self._at_once = 1.0
        self._since = 0.0
        self._finished = 0
        self._spent = 0.0

    def next_slice(self, now: float) -> None:
        """Runners may go on for a moment."""
        if now >= self.until:
            self.until = now + _SLICE

    def look(self, now: float) -> None:
        """Learn from what was finished since the last look."""
        jobs, seconds, spent = self.finished - self._finished, now - self._since, self.spent - self._spent
        if not jobs:
            self._since = now
        elif jobs >= _SAMPLE_JOBS or seconds >= _SAMPLE_SECONDS:
            each = spent / jobs
            self._each = each if self._each is None else (self._each + each) / 2
            # How many ran at the same time on average. Jobs that never wait for anything run one after the other.
            at_once = min(max(spent / max(seconds, 1e-6), 1.0), float(self._most))
            self._at_once = (self._at_once + at_once) / 2
            self._since, self._finished, self._spent = now, self.finished, self.spent

    def stalled(self, seconds: float) -> None:
        """What was fetched in advance had to wait for so long: the jobs are longer than they seemed."""
        self._each = max(self._each or 0.0, seconds)

    @property
    def ahead(self) -> int:
        """How many jobs to have in advance, beyond those that can start at once."""
        if self._each is None or self._each >= _LONG:
            return 0
        return int(min(_MOST_AHEAD, self._at_once / max(self._each, 1e-6)))

    @property
    def fetch(self) -> int:
        """How many jobs to fetch in one step at most: the more that are quickly done, the more at once."""
        each = _LONG if self._each is None else max(self._each, 1e-6)
        return int(min(_MOST_FETCH, max(_LEAST_FETCH, _FETCH_SECONDS * self._at_once / each)))

    def run(self, acknowledging: float) -> int:
        """How many jobs of one lane to take. Each starts when the store knows the end of the one before it."""
        if self._each is None or self._each >= _LONG:
            return 1
        return max(1, int(min(_MOST_RUN, 1.0 / max(self._each + acknowledging, 1e-6))))
