"""A worker's runners, and what they work with."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from interlock.callers import clear_caller
from interlock.jobs.current import CURRENT, runs_jobs, workplace
from interlock.jobs.worker.allowance import StartAllowance
from interlock.jobs.worker.buffer import cut
from interlock.jobs.worker.outcomes import Why, one_line, returned
from interlock.jobs.worker.runner import Runner
from interlock.ports.jobs import Acknowledgement, Outcome
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.buffer import Buffer
    from interlock.jobs.worker.completer import Completer
    from interlock.jobs.worker.session_batch import Tenure
    from interlock.jobs.worker.threads import Hand
    from interlock.jobs.worker.throughput import Pace
    from interlock.ports.jobs import FetchedJob, StartWindow
    from interlock.sessions import Session
    from interlock.telemetry.jobs import JobTally

__all__ = ["Crew"]

_log = logging.getLogger("interlock.jobs")
_DISMISS_SECONDS = 1.0
HELD = "held"
"""What the message of a hold begins with."""


class Crew:
    """``concurrency`` runners on one buffer.

    Of those who wait for work one is woken at a time: when there is something in the buffer, and again when a handler
    that has begun waits for something. So jobs that never wait cost no change of tasks.
    """

    tenure: Tenure
    """Under which session what is in the buffer was fetched."""

    def __init__(
        self,
        engine: JobEngine,
        concurrency: int,
        buffer: Buffer,
        pace: Pace,
        completer: Completer,
        lose: Callable[[Session], None],
        quiet: Callable[[], None],
    ) -> None:
        self.buffer = buffer
        self.pace = pace
        self.completer = completer
        self.definitions = engine.definitions
        self.reads = engine.reads_of
        """What a definition can read, by the name that it is known by."""
        self.monotonic = engine.monotonic
        self.waits = engine.metrics.waits
        self.lose = lose
        """To be called with the session when it is over."""
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        """What handlers find in their context variables, each a copy of its own."""
        self.context.run(_set_up, engine)
        self.clock_offset = engine.clock.now() - engine.monotonic()
        self.behind: dict[tuple[int, int], deque[FetchedJob]] = {}
        """What follows in the same run, by id and fence of the job whose end the store has to know before it starts."""
        self.allowance = StartAllowance()
        self.counts: dict[Outcome, int] = {}
        self._clock = engine.clock
        self._metrics = engine.metrics
        self._quiet = quiet
        self._concurrency = concurrency
        self._hired = 0
        self._runners: dict[Runner, None] = {}
        self._abandoned: dict[tuple[int, int], Session] = {}
        self._idle: list[asyncio.Future[None]] = []

    # -- runners -----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Have as many runners as there are to be."""
        while len(self._runners) < self._concurrency:
            self._hired += 1
            runner = Runner(self, self._hired)
            self._runners[runner] = None
            runner.task = self.loop.create_task(runner.work(), name=f"interlock-runner-{self._hired}")
            runs_jobs(runner.task)
            runner.task.add_done_callback(lambda task, runner=runner: self._ended(runner, task))  # type: ignore[misc]

    async def dismiss(self) -> None:
        """End the runners. None of them runs a handler any more, except one that does not stop."""
        self._concurrency = 0
        runners = list(self._runners)
        for runner in runners:
            runner.task.cancel()
            runner.retire()
        if runners:
            await asyncio.wait([runner.task for runner in runners], timeout=_DISMISS_SECONDS)

    async def await_work(self) -> None:
        """For a runner: wait until there may be something in the buffer."""
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._idle.append(waiter)
        self._quiet()
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._idle:
                self._idle.remove(waiter)
            else:
                self.wake_next()  # it was meant to take something
            raise

    def wake_next(self) -> None:
        """Let one more runner take something, if there is something and somebody."""
        if self._idle and len(self.buffer):
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)

    @property
    def running(self) -> list[Runner]:
        """Those who run a job right now."""
        return [runner for runner in self._runners if runner.job is not None]

    def at_work(self, session: Session | None = None) -> set[int]:
        """The jobs whose handlers run, also those that nobody waits for; of one session, if that is given."""
        found = {r.job.id for r in self.running if r.job is not None and session in (None, r.tenure.session)}
        return found | {job for (job, _), relied_on in self._abandoned.items() if session in (None, relied_on)}

    def job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
        """The job whose handler runs in a task. May be asked from another thread."""
        return next((runner.job for runner in list(self._runners) if runner.task is task), None)

    @property
    def free(self) -> int:
        """How many could start a job right now."""
        return sum(runner.job is None for runner in self._runners)

    @property
    def waiting(self) -> int:
        """How many jobs are fetched and have not started."""
        return self.buffer.count + self.aside

    @property
    def aside(self) -> int:
        """How many of them wait for the one before them in their lane."""
        return sum(map(len, self.behind.values()))

    def _ended(self, runner: Runner, task: asyncio.Task[None]) -> None:
        del self._runners[runner]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.CRITICAL, "job_runner_failed", error=one_line(error))
        self._quiet()

    # -- jobs --------------------------------------------------------------------------------------------------------

    def count(self, name: str, outcome: Outcome) -> JobTally:
        """Count the end of a fetch; gives what else is counted for jobs of that name."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        tally = self._metrics.tallies.get(name) or self._metrics.of(name)
        tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
        return tally

    def in_time(self, job: FetchedJob, window: StartWindow) -> bool:
        """Whether a job with a pace may start now. One that is too late goes back, and is fetched again."""
        now = self.monotonic()
        self.allowance.measured(now - window.asked_at)
        if now <= window.start_by:
            return True
        self._metrics.late_starts += 1
        emit(_log, logging.INFO, "job_start_late", id=job.id, job=job.name, seconds=round(now - window.asked_at, 3))
        return False

    def put(self, jobs: Sequence[FetchedJob], low: int) -> None:
        """Have jobs run."""
        self.clock_offset = self._clock.now() - self.monotonic()
        self.buffer.put(jobs, low)
        self.wake_next()

    def give_back(self, jobs: Iterable[FetchedJob], tenure: Tenure) -> None:
        """Return jobs that have not started."""
        for job in jobs:
            self.completer.add(tenure, returned(job), job)

    def give_back_behind(self, job: FetchedJob) -> None:
        """Return what stands behind a job."""
        self.give_back(self.behind.pop((job.id, job.fence), ()), self.tenure)

    def give_back_waiting(self) -> None:
        """Return all that has not started."""
        self._give_back_all_behind(self.buffer.empty())

    def give_back_lanes(self) -> None:
        """Return what has not started of any lane: somebody may have held it."""
        self._give_back_all_behind(self.buffer.pick(lambda job: bool(job.lane)))

    def give_back_behind_long(self, since: float) -> None:
        """Return what stands behind jobs that have been running since then."""
        for runner in self.running:
            if runner.started <= since and runner.job is not None:
                self.give_back_behind(runner.job)

    def _give_back_all_behind(self, others: list[FetchedJob]) -> None:
        for run in self.behind.values():
            others += run
        self.behind.clear()
        self.give_back(others, self.tenure)

    def answered(self, tenure: Tenure, batch: Sequence[Acknowledgement], accepted: Sequence[bool]) -> None:
        """The store knows how these ended: what stands behind them is next. If it was not ours, neither is that."""
        if not self.behind or tenure is not self.tenure:
            return
        for acknowledgement, good in zip(batch, accepted, strict=True):
            # By its fence too: an answer about an earlier fetch of the same job says nothing about this one.
            run = self.behind.pop((acknowledgement.id, acknowledgement.fence), None)
            if run is None:
                continue
            if good:
                self.buffer.put_first(run)
            else:
                self.give_back(run, tenure)
        self.wake_next()

    def drop(self, session: Session) -> None:
        """The session is lost: forget what has not started, and stop what runs."""
        self.buffer.empty()
        self.behind.clear()
        for runner in self.running:
            if runner.tenure.session is session:
                runner.interrupt(Why.LOST, "the worker's session was lost")

    def stop(self) -> None:
        """Stop what runs."""
        for runner in self.running:
            runner.interrupt(Why.STOPPED, "the worker was stopped")

    def leave_threads(self) -> None:
        """Wait no longer for what does not stop."""
        for runner in self.running:
            runner.leave()

    def abandon(self, job: FetchedJob, tenure: Tenure, hand: Hand) -> None:
        """Let a job run on in a thread that nobody waits for."""
        self._abandoned[job.id, job.fence] = tenure.session
        hand.leave(partial(self._ended_alone, job))

    def _ended_alone(self, job: FetchedJob) -> None:
        session = self._abandoned.pop((job.id, job.fence), None)
        if session is not None:
            session.at_work -= 1

    def taken(self, job_id: int, fence: int, why: str) -> bool:
        """Somebody held the lane of a job under this fetch, or cancelled it; whether the fetch is known here.

        What has not started of a held lane goes back; what runs goes on. A cancelled job is stopped, or not even begun.
        What was said of one fetch may be heard again during the next one, of which it says nothing.
        """
        held = why.startswith(HELD)
        for runner in self.running:
            if runner.job is not None and (runner.job.id, runner.job.fence) == (job_id, fence):
                if not held:
                    runner.interrupt(Why.CANCELLED, why)
                return True
        found = self._take_out(job_id, fence, behind=held)
        if held:
            self.give_back(found, self.tenure)
            return bool(found)
        for job in found:
            self.count(job.name, Outcome.CANCELLED)
            self.completer.add(self.tenure, Acknowledgement(job.id, job.fence, Outcome.CANCELLED, error=why), job)
        return bool(found)

    def _take_out(self, job_id: int, fence: int, *, behind: bool) -> list[FetchedJob]:
        def wanted(job: FetchedJob) -> bool:
            return job.id == job_id and job.fence == fence

        found = self.buffer.pick(wanted, behind=behind)
        for first, run in list(self.behind.items()):
            found += cut(run, wanted, behind=behind)
            if not run:
                del self.behind[first]
        return found

    def known(self, session: Session) -> Iterator[int]:
        """The jobs of a session that run, or are about to."""
        yield from self.at_work(session)
        if self.tenure.session is session:
            for job in chain(self.buffer, *self.behind.values()):
                yield job.id


def _set_up(engine: JobEngine) -> None:
    """The context that every handler starts with: in no other job, as nobody in particular, at this engine's."""
    workplace.set(engine)
    CURRENT.set(None)
    clear_caller()
