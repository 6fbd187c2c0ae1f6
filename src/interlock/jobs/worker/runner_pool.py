"""The runners of one worker, and the jobs that it has fetched."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.callers import clear_caller
from interlock.jobs.current import CURRENT, current_engine, register_runner
from interlock.jobs.worker.outcomes import StopCause, one_line, returned
from interlock.jobs.worker.runner import Runner
from interlock.jobs.worker.start_latency import StartLatency
from interlock.jobs.worker.throughput import Throughput
from interlock.jobs.worker.wakeup import Wakeup
from interlock.ports.jobs import Acknowledgement, Outcome
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.buffer import Buffer
    from interlock.jobs.worker.completer import Completer
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.jobs.worker.session_batch import SessionBatch
    from interlock.jobs.worker.threads import HandlerThread
    from interlock.jobs.worker.wakeup import FetchSignal
    from interlock.ports.jobs import FetchedJob, StartWindow
    from interlock.sessions import Session
    from interlock.telemetry.jobs import JobTally

__all__ = ["RunnerPool"]

_log = logging.getLogger("interlock.jobs")
_CLOSE_SECONDS = 1.0
HELD = "held"
"""The beginning of the message that the lane of a job is held."""


class RunnerPool:
    """``concurrency`` runners that take jobs from one buffer."""

    def __init__(
        self,
        engine: JobEngine,
        queues: tuple[str, ...],
        concurrency: int,
        buffer: Buffer,
        completer: Completer,
        coordinator: Coordinator,
        signal: FetchSignal,
    ) -> None:
        self.queues = queues
        self.concurrency = concurrency
        self.buffer = buffer
        self.completer = completer
        self.throughput = Throughput(concurrency)
        self.start_latency = StartLatency()
        self.idle = Wakeup()
        """Wakes the worker that waits for its runners to end."""
        self.definitions = engine.definitions
        self.version_of = engine.version_of
        self.monotonic = engine.monotonic
        self.waits = engine.metrics.waits
        self.logs = engine.logs
        self.middleware = engine.middleware
        self.loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        """The context variables that each handler gets a copy of."""
        self.context.run(_prepare_context, engine)
        self.clock_offset = engine.clock.now() - engine.monotonic()
        self.counts: dict[Outcome, int] = {}
        self._clock = engine.clock
        self._metrics = engine.metrics
        self._coordinator = coordinator
        self._signal = signal
        self._wanted = concurrency
        self._started = 0
        self._runners: dict[Runner, None] = {}
        self._abandoned: dict[tuple[int, int], Session] = {}

    # -- runners -----------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Start the runners that are missing."""
        while len(self._runners) < self._wanted:
            self._started += 1
            runner = Runner(self, self._started)
            self._runners[runner] = None
            runner.task = self.loop.create_task(runner.work(), name=f"interlock-runner-{self._started}")
            register_runner(runner.task)
            runner.task.add_done_callback(lambda task, runner=runner: self._ended(runner, task))  # type: ignore[misc]

    def grow(self, runners: int) -> None:
        """Have at least so many runners."""
        self._wanted = max(self._wanted, runners)
        self.fill()

    async def close(self) -> None:
        """End the runners. By now none of them runs a handler, except one that does not stop."""
        self._wanted = 0
        runners = list(self._runners)
        for runner in runners:
            runner.task.cancel()
            runner.close_thread()
        if runners:
            await asyncio.wait([runner.task for runner in runners], timeout=_CLOSE_SECONDS)

    def became_idle(self) -> None:
        """Note that a runner has nothing to run."""
        self._signal.wake()
        self.idle.wake()

    def _ended(self, runner: Runner, task: asyncio.Task[None]) -> None:
        del self._runners[runner]
        if not task.cancelled() and (error := task.exception()) is not None:
            emit(_log, logging.CRITICAL, "job_runner_failed", error=one_line(error))
        self.became_idle()

    @property
    def running(self) -> list[Runner]:
        """The runners that run a job right now."""
        return [runner for runner in self._runners if runner.job is not None]

    @property
    def free(self) -> int:
        """How many runners could start a job right now."""
        return sum(runner.job is None for runner in self._runners)

    @property
    def waiting(self) -> int:
        """How many jobs are fetched and have not started."""
        return self.buffer.count + self.buffer.following_count

    @property
    def busy(self) -> bool:
        """Whether a handler has not ended, or the store has not acknowledged one that has."""
        return bool(self.running_ids() or self.completer.unacknowledged)

    def running_ids(self, session: Session | None = None) -> set[int]:
        """The jobs whose handlers run, abandoned threads included; those of one session if it is given."""
        found = {r.job.id for r in self.running if r.job is not None and session in (None, r.session_batch.session)}
        return found | {job for (job, _), owner in self._abandoned.items() if session in (None, owner)}

    def started_fetches(self, session: Session, by: float) -> Iterator[tuple[int, int]]:
        """ID and fence of the jobs of a session whose handlers have been running since then, by the worker's clock."""
        for runner in self._runners:
            job = runner.job
            if job is not None and runner.started <= by and runner.session_batch.session is session:
                yield job.id, job.fence
        for fetch, owner in self._abandoned.items():
            if owner is session:
                yield fetch

    def known_ids(self, session: Session) -> Iterator[int]:
        """The jobs of a session that this worker runs, has yet to start, or has yet to acknowledge."""
        yield from self.running_ids(session)
        if self.buffer.session_batch.session is session:
            for job in self.buffer:
                yield job.id
        yield from self.completer.pending(session)

    def job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
        """The job whose handler runs in a task. Thread-safe."""
        return next((runner.job for runner in list(self._runners) if runner.task is task), None)

    # -- jobs --------------------------------------------------------------------------------------------------------

    def count(self, name: str, outcome: Outcome) -> JobTally:
        """Count an outcome; returns the counters of the job's name."""
        self.counts[outcome] = self.counts.get(outcome, 0) + 1
        tally = self._metrics.tallies.get(name) or self._metrics.of(name)
        tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
        return tally

    def in_time(self, job: FetchedJob, window: StartWindow) -> bool:
        """Whether a job with a rate or cooldown, or that expires, may start now. One that is too late is returned."""
        now = self.monotonic()
        if window.paced:
            self.start_latency.observe(now - window.asked_at)
        expired = job.expires_in is not None and now >= window.asked_at + job.expires_in
        if now <= window.start_by and not expired:
            return True
        seconds = round(now - window.asked_at, 3)
        if expired:
            self._metrics.expired_starts += 1
            emit(_log, logging.INFO, "job_start_expired", id=job.id, job=job.name, seconds=seconds)
        else:
            self._metrics.late_starts += 1
            emit(_log, logging.INFO, "job_start_late", id=job.id, job=job.name, seconds=seconds)
        return False

    def put(self, jobs: Sequence[FetchedJob], low: int) -> None:
        """Run the jobs of a fetch."""
        self.clock_offset = self._clock.now() - self.monotonic()
        self.buffer.put(jobs, low)

    def return_jobs(self, jobs: Iterable[FetchedJob]) -> None:
        """Return jobs that have not started to the store."""
        for job in jobs:
            self.completer.add(self.buffer.session_batch, returned(job), job)

    def return_waiting(self) -> None:
        """Return every job that has not started."""
        self.return_jobs(self.buffer.empty() + self.buffer.empty_following())

    def return_queue(self, queue: str) -> None:
        """Return every job of a queue that has not started: the queue was paused."""
        jobs = self.buffer.remove_queue(queue)
        self._metrics.returned_paused += len(jobs)
        self.return_jobs(jobs)

    def return_following(self, job: FetchedJob) -> None:
        """Return the jobs that follow this one in its run."""
        self.return_jobs(self.buffer.following.pop((job.id, job.fence), ()))

    def return_behind_long(self, since: float) -> None:
        """Return the jobs that follow those that have been running since then."""
        for runner in self.running:
            if runner.started <= since and runner.job is not None:
                self.return_following(runner.job)

    def lose_session(self, session: Session) -> None:
        """Drop the jobs fetched under a session that is over, and stop those that run."""
        session_batch = self.buffer.session_batch
        if session_batch.session is session and not session_batch.lost:
            session_batch.lost = session.lost = True
            self._coordinator.owe(session)
            self._drop(session)
            self._signal.wake()

    def _drop(self, session: Session) -> None:
        self.buffer.empty()
        self.buffer.empty_following()
        for runner in self.running:
            if runner.session_batch.session is session:
                runner.interrupt(StopCause.LOST, "the worker's session was lost")

    def stop(self) -> None:
        """Stop the running handlers."""
        for runner in self.running:
            runner.interrupt(StopCause.STOPPED, "the worker was stopped")

    def abandon_threads(self) -> None:
        """Stop waiting for handler threads that do not end."""
        for runner in self.running:
            runner.abandon()

    def abandon(self, job: FetchedJob, session_batch: SessionBatch, thread: HandlerThread) -> None:
        """Let a job go on in its thread without a runner that waits for it."""
        self._abandoned[job.id, job.fence] = session_batch.session
        thread.abandon(partial(self._abandoned_ended, job))

    def _abandoned_ended(self, job: FetchedJob) -> None:
        session = self._abandoned.pop((job.id, job.fence), None)
        if session is not None:
            session.at_work -= 1

    def revoke(self, job_id: int, fence: int, cause: str) -> bool:
        """A person held the lane of a fetched job, or cancelled the job; returns whether this fetch is known here.

        Jobs of a held lane that have not started go back, and the running one goes on. A cancelled job is stopped, or
        never started. A message about one fetch may arrive again during the next, about which it says nothing.
        """
        held = cause.startswith(HELD)
        for runner in self.running:
            if runner.job is not None and (runner.job.id, runner.job.fence) == (job_id, fence):
                if not held:
                    runner.interrupt(StopCause.CANCELLED, cause)
                return True
        found = self.buffer.remove(job_id, fence, rest=held)
        if held:
            self.return_jobs(found)
            return bool(found)
        for job in found:
            self.count(job.name, Outcome.CANCELLED)
            cancelled = Acknowledgement(job.id, job.fence, Outcome.CANCELLED, error=cause)
            self.completer.add(self.buffer.session_batch, cancelled, job)
        return bool(found)


def _prepare_context(engine: JobEngine) -> None:
    """Set up the context that every handler starts with: no current job, no waiting caller, this engine."""
    current_engine.set(engine)
    CURRENT.set(None)
    clear_caller()
