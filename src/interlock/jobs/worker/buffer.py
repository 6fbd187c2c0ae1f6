"""Jobs that a worker has fetched and not started, and the runners that wait for one."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from interlock.ports.jobs import FetchedJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from interlock.jobs.worker.session_batch import SessionBatch
    from interlock.jobs.worker.wakeup import FetchSignal
    from interlock.ports.jobs import Acknowledgement

__all__ = ["Buffer", "Run"]

Run = FetchedJob | deque[FetchedJob]
"""A single job, or consecutive jobs of one lane that one runner starts in order."""


class Buffer:
    """Runs in the order to start them. Wakes the fetcher once after each :meth:`put` when few are left.

    Waiting runners are woken one at a time: when a run arrives, and again when a started handler awaits something. So
    handlers that never await cost no task switch.
    """

    __slots__ = ("_idle", "_low", "_runs", "_signal", "count", "following", "session_batch", "taken")

    def __init__(self, signal: FetchSignal, session_batch: SessionBatch) -> None:
        self._runs: deque[Run] = deque()
        self._signal = signal
        self._low = -1
        self._idle: list[asyncio.Future[None]] = []
        self.session_batch = session_batch
        """The session under which these jobs were fetched."""
        self.following: dict[tuple[int, int], deque[FetchedJob]] = {}
        """The rest of a run, by ID and fence of the job that the store has to acknowledge before the next starts."""
        self.count = 0
        """How many jobs can start."""
        self.taken = 0
        """How many runs were ever taken; shows whether the buffer moves."""

    def __len__(self) -> int:
        """The number of runs, each for another runner."""
        return len(self._runs)

    def __iter__(self) -> Iterator[FetchedJob]:
        for run in self._runs:
            if isinstance(run, FetchedJob):
                yield run
            else:
                yield from run
        for run in self.following.values():
            yield from run

    @property
    def following_count(self) -> int:
        """How many jobs wait for the acknowledgement of the one before them in their lane."""
        return sum(map(len, self.following.values()))

    # -- runners -----------------------------------------------------------------------------------------------------

    def take(self) -> Run | None:
        """Take the next run to start; None if there is none."""
        if not self._runs:
            return None
        run = self._runs.popleft()
        self.taken += 1
        self.count -= 1 if isinstance(run, FetchedJob) else len(run)
        if self.count <= self._low:
            self._low = -1
            self._signal.wake()
        return run

    async def wait(self) -> None:
        """Wait until there may be a run to take."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._idle:
                self._idle.remove(waiter)
            else:
                self.wake_runner()  # this runner was woken to take a run
            raise

    def wake_runner(self) -> None:
        """Let one more waiting runner take a run, if there is one of each."""
        if self._idle and self._runs:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)

    # -- jobs --------------------------------------------------------------------------------------------------------

    def put(self, jobs: Sequence[FetchedJob], low: int) -> None:
        """Add the jobs of a fetch. The fetcher is woken when no more than ``low`` are left."""
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
        self.wake_runner()

    def release(
        self, session_batch: SessionBatch, batch: Sequence[Acknowledgement], accepted: Sequence[bool]
    ) -> list[FetchedJob]:
        """Let the jobs that follow acknowledged ones start next.

        Returns the jobs that follow a refused acknowledgement: if the first was not ours, they are not either.
        """
        if not self.following or session_batch is not self.session_batch:
            return []
        refused: list[FetchedJob] = []
        for acknowledgement, good in zip(batch, accepted, strict=True):
            # By its fence too: an answer about an earlier fetch of the same job says nothing about this one.
            run = self.following.pop((acknowledgement.id, acknowledgement.fence), None)
            if run is None:
                continue
            if good:
                self._runs.appendleft(run)
                self.count += len(run)
            else:
                refused += run
        self.wake_runner()
        return refused

    def empty(self) -> list[FetchedJob]:
        """Remove every job that can start."""
        jobs: list[FetchedJob] = []
        for run in self._runs:
            if isinstance(run, FetchedJob):
                jobs.append(run)
            else:
                jobs += run
        self._runs.clear()
        self.count = 0
        return jobs

    def empty_following(self) -> list[FetchedJob]:
        """Remove every job that follows one that has started."""
        jobs = [job for run in self.following.values() for job in run]
        self.following.clear()
        return jobs

    def remove_queue(self, queue: str) -> list[FetchedJob]:
        """Remove every job of a queue, with those behind it in its run."""
        found = self._pick(lambda job: job.queue == queue, rest=True)
        for first, run in list(self.following.items()):
            found += _cut(run, lambda job: job.queue == queue, rest=True)
            if not run:
                del self.following[first]
        return found

    def remove(self, job_id: int, fence: int, *, rest: bool) -> list[FetchedJob]:
        """Remove one fetched job, with those behind it in its run if ``rest`` is true.

        Otherwise those behind the first job of a run wait until the store has acknowledged its end.
        """

        def wanted(job: FetchedJob) -> bool:
            return job.id == job_id and job.fence == fence

        if not rest:
            for run in self._runs:
                if not isinstance(run, FetchedJob) and len(run) > 1 and wanted(run[0]):
                    self._runs.remove(run)
                    self.count -= len(run)
                    first_job = run.popleft()
                    self.following[job_id, fence] = run
                    return [first_job]
        found = self._pick(wanted, rest=rest)
        for first, run in list(self.following.items()):
            found += _cut(run, wanted, rest=rest)
            if not run:
                del self.following[first]
        return found

    def _pick(self, wanted: Callable[[FetchedJob], bool], *, rest: bool = False) -> list[FetchedJob]:
        found: list[FetchedJob] = []
        kept: deque[Run] = deque()
        for run in self._runs:
            if isinstance(run, FetchedJob):
                if wanted(run):
                    found.append(run)
                else:
                    kept.append(run)
            else:
                found += _cut(run, wanted, rest=rest)
                if run:
                    kept.append(run)
        self._runs = kept
        self.count -= len(found)
        return found


def _cut(run: deque[FetchedJob], wanted: Callable[[FetchedJob], bool], *, rest: bool = False) -> list[FetchedJob]:
    """Remove the wanted jobs from a run, with those behind them if ``rest`` is true."""
    found: list[FetchedJob] = []
    kept: list[FetchedJob] = []
    for job in run:
        (found if wanted(job) or (rest and found) else kept).append(job)
    if found:
        run.clear()
        run.extend(kept)
    return found
