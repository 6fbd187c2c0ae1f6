"""A worker's runners, and what they work with."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import TYPE_CHECKING

from interlock.jobs.current import CURRENT, runs_jobs, workplace
from interlock.jobs.worker.buffer import cut
from interlock.jobs.worker.outcomes import Why, one_line, returned
from interlock.jobs.worker.runner import Runner
from interlock.parties import nobody_acts
from interlock.ports.jobs import Outcome, Settlement
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.buffer import Buffer
    from interlock.jobs.worker.completer import Completer
    from interlock.jobs.worker.pace import Pace
    from interlock.jobs.worker.tenure import Tenure
    from interlock.ports.jobs import ClaimedJob
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
    """Under which session what is in the buffer was claimed."""

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
        self.monotonic = engine.monotonic
        self.waits = engine.metrics.waits
        self.lose = lose
        """To be called with the session when it is over."""
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        """What handlers find in their context variables, each a copy of its own."""
        self.context.run(_set_up, engine)
        self.clock_offset = engine.clock.now() - engine.monotonic()
        self.counts: dict[Outcome, int] = {}
        self._clock = engine.clock
        self._metrics = engine.metrics
        self._quiet = quiet
        self._concurrency = concurrency
        self._hired = 0
        self._runners: dict[Runner, None] = {}
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

    @property
    def free(self) -> int:
        """How many could start a job right now."""
        return sum(runner.job is None for runner in self._runners)

    @property
    def waiting(self) -> int:
        """How many jobs are claimed and have not started."""
        return self.buffer.count + sum(len(runner.rest) for runner in self._runners)

    def _ended(self, runner: Runner, task: asyncio.Task[None]) -> None:
        del self._runners[runner]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.CRITICAL, "job_runner_failed", error=one_line(error))
        self._quiet()

    # -- jobs --------------------------------------------------------------------------------------------------------

    def count(self, name: str, outcome: Outcome) -> JobTally:
        """Count the end of a claim; gives what else is counted for jobs of that name."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        tally = self._metrics.tallies.get(name) or self._metrics.of(name)
        tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
        return tally

    def put(self, jobs: Sequence[ClaimedJob], low: int) -> None:
        """Have jobs run."""
        self.clock_offset = self._clock.now() - self.monotonic()
        self.buffer.put(jobs, low)
        self.wake_next()

    def give_back(self, jobs: Iterable[ClaimedJob], tenure: Tenure) -> None:
        """Return jobs that have not started."""
        for job in jobs:
            self.completer.add(tenure, returned(job), job)

    def give_back_waiting(self) -> None:
        """Return all that has not started."""
        waiting = self.buffer.empty()
        for runner in self._runners:
            waiting += runner.rest
            runner.rest.clear()
        if waiting:
            self.give_back(waiting, self.tenure)

    def give_back_lanes(self) -> None:
        """Return what has not started of any lane: somebody may have held it."""
        waiting = self.buffer.pick(lambda job: bool(job.lane))
        for runner in self._runners:
            waiting += runner.rest
            runner.rest.clear()
        self.give_back(waiting, self.tenure)

    def give_back_behind(self, since: float) -> None:
        """Return what stands behind jobs that have been running since then."""
        for runner in self.running:
            if runner.rest and runner.started <= since:
                waiting = list(runner.rest)
                runner.rest.clear()
                self.give_back(waiting, runner.tenure)

    def drop(self, session: Session) -> None:
        """The session is lost: forget what has not started, and stop what runs."""
        self.buffer.empty()
        for runner in list(self._runners):
            if runner.job is None or runner.tenure.session is session:
                runner.rest.clear()
            if runner.job is not None and runner.tenure.session is session:
                runner.interrupt(Why.LOST, "the worker's session was lost")

    def stop(self) -> None:
        """Stop what runs."""
        for runner in self.running:
            runner.interrupt(Why.STOPPED, "the worker was stopped")

    def leave_threads(self) -> None:
        """Wait no longer for what does not stop."""
        for runner in self.running:
            runner.leave()

    def taken(self, job_id: int, why: str) -> bool:
        """Somebody held the lane of this job, or cancelled it; whether it is known here.

        What has not started of a held lane goes back; what runs goes on. A cancelled job is stopped, or not even begun.
        """
        held = why.startswith(HELD)
        for runner in self.running:
            if runner.job is not None and runner.job.id == job_id:
                if not held:
                    runner.interrupt(Why.CANCELLED, why)
                return True
        found = self._take_out(job_id, behind=held)
        if held:
            self.give_back(found, self.tenure)
            return bool(found)
        for job in found:
            self.count(job.name, Outcome.CANCELLED)
            self.completer.add(self.tenure, Settlement(job.id, job.fence, Outcome.CANCELLED, error=why), job)
        return bool(found)

    def _take_out(self, job_id: int, *, behind: bool) -> list[ClaimedJob]:
        found = self.buffer.pick(lambda job: job.id == job_id, behind=behind)
        for runner in self._runners:
            found += cut(runner.rest, lambda job: job.id == job_id, behind=behind)
        return found

    def known(self, session: Session) -> Iterator[int]:
        """The jobs of a session that run, or are about to."""
        for runner in self._runners:
            if runner.job is not None and runner.tenure.session is session:
                yield runner.job.id
            if runner.rest and runner.tenure.session is session:
                for job in runner.rest:
                    yield job.id
        if self.tenure.session is session:
            for job in self.buffer:
                yield job.id


def _set_up(engine: JobEngine) -> None:
    """The context that every handler starts with: in no other job, as nobody in particular, at this engine's."""
    workplace.set(engine)
    CURRENT.set(None)
    nobody_acts()
