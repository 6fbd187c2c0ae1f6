"""The worker: fetches jobs, runs them, and acknowledges them to the store."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Self

from interlock.arguments import checked_wait
from interlock.errors import MisuseError, StoreReplacedError
from interlock.jobs.log_capture import LogCapture
from interlock.jobs.options import checked_name
from interlock.jobs.resources import check_provided
from interlock.jobs.worker.buffer import Buffer
from interlock.jobs.worker.completer import Completer
from interlock.jobs.worker.coordinator import coordinator_of
from interlock.jobs.worker.fetcher import Fetcher
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.runner_pool import RunnerPool
from interlock.jobs.worker.session_batch import SessionBatch
from interlock.jobs.worker.status import RunningJob, WorkerStatus
from interlock.jobs.worker.wakeup import FetchSignal
from interlock.jobs.worker.watchdog import Watchdog
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from interlock.arguments import Wait
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.ports.jobs import Outcome

__all__ = ["FINISH_WITHIN", "RETURN_SECONDS", "STOP_SECONDS", "Worker", "check_concurrency"]

_log = logging.getLogger("interlock.jobs")
_MAX_CONCURRENCY = 10_000
FINISH_WITHIN = 25.0
"""How long running jobs may take to finish by default: most supervisors kill a process after 30 seconds."""
STOP_SECONDS = 3.0
"""How long handlers may take to clean up after they were cancelled."""
RETURN_SECONDS = 1.5
"""How long the store may take after that to accept the jobs that are left."""


def check_concurrency(concurrency: object, queue: str = "") -> None:
    """Check how many jobs run at once: of a worker, or of one of its queues."""
    if type(concurrency) is not int or not 1 <= concurrency <= _MAX_CONCURRENCY:
        of = f" of queue {queue!r}" if queue else ""
        raise MisuseError(
            f"Invalid concurrency{of} {concurrency!r}.", remedy=f"Use a whole number from 1 to {_MAX_CONCURRENCY:,}."
        )


class Worker:
    """Runs the jobs of an app: ``async with app.worker(concurrency=50): …``, or ``await worker.run()``.

    Leaving the block finishes the worker: fetched jobs that have not started go back at once. Running jobs get
    ``finish_within`` seconds (``FOREVER`` for no limit); after that they are cancelled and go back too. If the block
    ends with an error, running jobs are cancelled at once.
    """

    _serves_queues = True
    """Whether the store is told that this process works on its queues."""

    def __init__(
        self,
        engine: JobEngine,
        *,
        concurrency: int = 50,
        queues: Sequence[str] = ("default",),
        finish_within: Wait = FINISH_WITHIN,
    ) -> None:
        check_concurrency(concurrency)
        if isinstance(queues, str) or not queues:
            raise MisuseError(f"Invalid queues {queues!r}.", remedy='Pass a list of names, such as ("default",).')
        self.concurrency = concurrency
        self.queues = tuple(dict.fromkeys(checked_name("queue", queue) for queue in queues))
        self.finish_within = checked_wait(finish_within, name="finish_within")
        self.unstopped = 0
        """How many handlers did not stop when the worker was stopped. They may still be running."""
        self._engine = engine
        self._state = "new"
        self._failure: StoreReplacedError | None = None
        self._stop_at = math.inf
        self._stop_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ended: asyncio.Future[None]
        self._coordinator: Coordinator
        self._completer: Completer
        self._pool: RunnerPool
        self._fetcher: Fetcher
        self._watchdog: Watchdog
        self._capture: LogCapture
        self._unsubscribe: Callable[[], None]

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await (self.finish() if kind is None else self.stop())
        if kind is None and self._failure is not None:
            raise self._failure

    def open(self) -> None:
        """Start to work."""
        if self._state != "new":
            raise MisuseError(f"This worker is already {self._state}.", remedy="Create another one.")
        if not self._engine.definitions:
            raise MisuseError("There are no jobs for a worker to run.", remedy="Define one: @app.job().")
        self._engine.ensure_open()
        engine = self._engine
        check_provided(engine.definitions.values(), engine.resources)
        signal = FetchSignal()
        buffer = Buffer(signal, SessionBatch(engine.session))
        self._coordinator = coordinator_of(engine)
        self._completer = Completer(engine, buffer, self._coordinator, signal)
        queues = self.queues if self._serves_queues else ()
        self._pool = RunnerPool(engine, queues, self.concurrency, buffer, self._completer, self._coordinator, signal)
        self._fetcher = self._new_fetcher(signal)
        self._watchdog = Watchdog(self._pool, self._coordinator)
        self._capture = LogCapture(engine.logs)
        self._ended = asyncio.get_running_loop().create_future()
        self._state = "working"
        self._join()
        engine.fetchers.append(self._fetcher)
        engine.metrics.gauges.append(self._levels)
        engine.watch_messages(1)
        self._coordinator.join(self._pool)
        self._unsubscribe = engine.jobs.on_ready(self.queues, signal.notify)
        self._pool.fill()
        self._completer.start()
        self._fetcher.start()
        assert self._fetcher.task is not None
        self._fetcher.task.add_done_callback(self._fetcher_ended)
        self._watchdog.start()
        self._capture.start()

    async def run(self) -> None:
        """Work until :meth:`finish` or :meth:`stop` is called, or until cancelled, which stops the worker.

        Raises ``StoreReplacedError`` if the store was deleted or replaced, so that there is nothing left to work on.
        """
        self.open()
        try:
            await asyncio.shield(self._ended)
        finally:
            await self.stop()
        if self._failure is not None:
            raise self._failure

    def start_finishing(self) -> None:
        """Begin to finish without waiting for the end; see :meth:`finish`."""
        if self._state == "working":
            self._state = "finishing"
            loop = asyncio.get_running_loop()
            if self.finish_within is not None:
                self._stop_at = loop.time() + self.finish_within
                self._stop_timer = loop.call_at(self._stop_at, self._out_of_time)
            if self._pool.running:
                self._engine.leave()
            self._closing = loop.create_task(self._close(), name="interlock-worker-closing")

    def start_stopping(self) -> None:
        """Begin to stop without waiting for the end; see :meth:`stop`."""
        self.start_finishing()
        if self._state == "finishing":
            self._state = "stopping"
            self._pool.stop()
            self._pool.idle.wake()

    async def finish(self) -> None:
        """Fetch nothing more, return the jobs that have not started, and let the running ones finish.

        Jobs that still run after ``finish_within`` seconds are stopped as by :meth:`stop`.
        """
        self.start_finishing()
        await self._closed()

    async def stop(self) -> None:
        """Like :meth:`finish`, but cancel running jobs. They start again, and this does not count as an attempt."""
        self.start_stopping()
        await self._closed()

    def leave(self) -> None:
        """Have the store record that this process was told to end. Thread-safe; may be called before the rest."""
        self._engine.store_client.keeper.leave()

    def _out_of_time(self) -> None:
        if self._state == "finishing" and (running := self._pool.running):
            emit(_log, logging.WARNING, "jobs_interrupted", jobs=len(running), after=self.finish_within)
            self.start_stopping()

    def _fetcher_ended(self, task: asyncio.Task[None]) -> None:
        """Stop if the store was deleted or replaced."""
        if not task.cancelled() and isinstance(error := task.exception(), StoreReplacedError):
            self._failure = error
            self.start_stopping()

    async def _closed(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            self._pool.return_waiting()
            await self._fetcher.stop()
            await self._wait_for_runners()
            if self._failure is not None:
                return  # there is no store to return jobs to
            async with asyncio.timeout(self._return_seconds()):
                await self._completer.flush()
                await self._coordinator.return_jobs_of(self._pool)
        except Exception as error:  # noqa: BLE001 - most likely the store is unavailable; closing has to end anyway
            # What is left is returned by the next worker of this session, or when the session has ended.
            self._coordinator.doubt()
            unacknowledged = self._completer.unacknowledged
            emit(_log, logging.WARNING, "job_return_failed", unacknowledged=unacknowledged, error=one_line(error))
        finally:
            await self._tear_down()

    def _return_seconds(self) -> float:
        """How long to try to reach the store, so that a supervisor need not kill this process."""
        left = self._stop_at + STOP_SECONDS + RETURN_SECONDS - asyncio.get_running_loop().time()
        return min(self._engine.settings.store_wait, max(left, RETURN_SECONDS))

    async def _wait_for_runners(self) -> None:
        """Wait for running jobs; once they were told to stop, only for as long as a handler may take to do so."""
        loop = asyncio.get_running_loop()
        give_up = math.inf
        while running := self._pool.running:
            if self._state == "stopping" and give_up == math.inf:
                give_up = loop.time() + min(self._engine.settings.session_margin, STOP_SECONDS)
            if loop.time() >= give_up:
                self.unstopped = len(running)
                for runner in running:
                    if runner.job is not None:
                        emit(_log, logging.ERROR, "job_did_not_stop", id=runner.job.id, job=runner.job.name)
                self._pool.abandon_threads()
                return
            await self._pool.idle.wait(give_up - loop.time())

    async def _tear_down(self) -> None:
        engine = self._engine
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        self._watchdog.stop()
        self._capture.stop()
        self._unsubscribe()
        await self._completer.close()
        await self._pool.close()
        await self._coordinator.leave(self._pool)
        engine.watch_messages(-1)
        engine.metrics.gauges.remove(self._levels)
        engine.fetchers.remove(self._fetcher)
        self._part()
        self._state = "closed"
        self._ended.set_result(None)

    def _new_fetcher(self, signal: FetchSignal) -> Fetcher:
        return Fetcher(self._engine, self._pool, self._coordinator, signal)

    def _join(self) -> None:
        """Become one of the process's workers."""
        self._engine.stay()
        self._engine.workers.append(self)

    def _part(self) -> None:
        self._engine.workers.remove(self)

    # -- status ------------------------------------------------------------------------------------------------------

    async def wait_until_idle(self) -> None:
        """Wait until no job is left that could be fetched, and none is running here."""
        await self._fetcher.wait_until_drained()

    @property
    def is_working(self) -> bool:
        """Whether it is open and was not told to end."""
        return self._state == "working"

    @property
    def counts(self) -> dict[Outcome, int]:
        """Jobs by outcome since the worker was opened."""
        return dict(self._pool.counts)

    def status(self) -> WorkerStatus:
        """What the worker is doing right now."""
        if self._state == "new":
            return WorkerStatus("new", "", self.queues, self.concurrency, (), 0, 0, {})
        now, session = self._engine.monotonic(), self._pool.buffer.session_batch.session
        running = [
            RunningJob(
                job.id,
                job.name,
                job.lane,
                job.attempt,
                now - runner.started,
                runner.stop_text if runner.stop_cause else "",
            )
            for runner in self._pool.running
            if (job := runner.job) is not None
        ]
        counts = {outcome.value: count for outcome, count in self._pool.counts.items()}
        if self._completer.refused:
            counts["refused"] = self._completer.refused
        return WorkerStatus(
            self._state,
            "" if session.lost else session.id,
            self.queues,
            self.concurrency,
            tuple(sorted(running, key=lambda job: -job.seconds)),
            self._pool.waiting,
            self._completer.unacknowledged,
            counts,
            self._completer.trouble or self._fetcher.trouble,
        )

    def _levels(self) -> tuple[int, int]:
        return len(self._pool.running), self._pool.waiting
