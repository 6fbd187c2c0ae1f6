"""Jobs that were fetched and have not started."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from interlock.ports.jobs import FetchedJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Buffer", "Run", "cut"]

Run = FetchedJob | deque[FetchedJob]
"""A job by itself, or consecutive jobs of one lane for one runner."""


class Buffer:
    """Runs in the order to start them. ``on_low`` is called once after each :meth:`put` when few are left."""

    __slots__ = ("_low", "_on_low", "_runs", "count", "taken")

    def __init__(self, on_low: Callable[[], None]) -> None:
        self._runs: deque[Run] = deque()
        self._on_low = on_low
        self._low = -1
        self.count = 0
        """How many jobs."""
        self.taken = 0
        """How many runs were ever taken out; tells whether it moves."""

    def __len__(self) -> int:
        """How many runs, each for another runner."""
        return len(self._runs)

    def __iter__(self) -> Iterator[FetchedJob]:
        for run in self._runs:
            if isinstance(run, FetchedJob):
                yield run
            else:
                yield from run

    def put(self, jobs: Sequence[FetchedJob], low: int) -> None:
        """Add what a fetch gave. Call when no more than ``low`` jobs are left."""
        runs = self._runs
        if not any(job.lane for job in jobs):
            runs.extend(jobs)
        else:
            lane = ""
            for job in jobs:
                if not job.lane:
                    runs.append(job)
                elif job.lane != lane:
                    runs.append(deque((job,)))
                else:
                    runs[-1].append(job)  # type: ignore[union-attr]
                lane = job.lane
        self.count += len(jobs)
        self._low = low

    def put_first(self, run: Run) -> None:
        """Add a run that is to be taken next."""
        self._runs.appendleft(run)
        self.count += 1 if isinstance(run, FetchedJob) else len(run)

    def take(self) -> Run | None:
        """The next run to start; None if there is none."""
        if not self._runs:
            return None
        run = self._runs.popleft()
        self.taken += 1
        self.count -= 1 if isinstance(run, FetchedJob) else len(run)
        if self.count <= self._low:
            self._low = -1
            self._on_low()
        return run

    def empty(self) -> list[FetchedJob]:
        """Take everything out."""
        jobs = list(self)
        self._runs.clear()
        self.count = 0
        return jobs

    def pick(self, wanted: Callable[[FetchedJob], bool], *, behind: bool = False) -> list[FetchedJob]:
        """Take out the jobs that are wanted, with those behind them in their runs if that is wanted too."""
        found: list[FetchedJob] = []
        kept: deque[Run] = deque()
        for run in self._runs:
            if isinstance(run, FetchedJob):
                if wanted(run):
                    found.append(run)
                else:
                    kept.append(run)
            else:
                found += cut(run, wanted, behind=behind)
                if run:
                    kept.append(run)
        self._runs = kept
        self.count -= len(found)
        return found


def cut(run: deque[FetchedJob], wanted: Callable[[FetchedJob], bool], *, behind: bool = False) -> list[FetchedJob]:
    """Take out of a run the jobs that are wanted, with those behind them if that is wanted too."""
    found: list[FetchedJob] = []
    kept: list[FetchedJob] = []
    for job in run:
        (found if wanted(job) or (behind and found) else kept).append(job)
    if found:
        run.clear()
        run.extend(kept)
    return found
