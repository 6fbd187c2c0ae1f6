"""A worker: fetches jobs, runs them, and tells the store how they ended."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Any, Self

from interlock.arguments import checked_wait
from interlock.errors import MisuseError
from interlock.jobs.options import checked_name
from interlock.jobs.worker.buffer import Buffer
from interlock.jobs.worker.completer import Completer
from interlock.jobs.worker.coordinator import desk_of
from interlock.jobs.worker.fetcher import Fetcher
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.runner_pool import Crew
from interlock.jobs.worker.session_batch import Tenure
from interlock.jobs.worker.status import RunningJob, WorkerStatus
from interlock.jobs.worker.throughput import Pace
from interlock.jobs.worker.wakeup import Bell
from interlock.jobs.worker.watch import Watch
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from interlock.arguments import Wait
    from interlock.errors import StoreReplacedError
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.coordinator import Desk
    from interlock.ports.jobs import Acknowledgement, FetchedJob, Outcome
    from interlock.sessions import Session

__all__ = ["FINISH_WITHIN", "HAND_BACK_SECONDS", "STOP_SECONDS", "Worker"]

_log = logging.getLogger("interlock.jobs")
_MOST_CONCURRENCY = 10_000
FINISH_WITHIN = 25.0
"""How long running jobs may take to finish unless told otherwise: most supervisors kill after 30 seconds."""
STOP_SECONDS = 3.0
"""How long handlers may take to clean up once they were cancelled."""
HAND_BACK_SECONDS = 1.5
"""How long the store may take after that to accept what is left."""


class Worker:
    """Runs the jobs that an app defines: ``async with app.worker(concurrency=50): …``, or ``await worker.run()``.

    Leaving the block finishes: what was fetched and has not started goes back at once, what runs may finish for
    ``finish_within`` seconds and is then stopped and goes back too. If the block ends with an error, that happens at
    once. ``finish_within=FOREVER`` waits for as long as it takes.
    """

    def __init__(
        self,
        engine: JobEngine,
        *,
        concurrency: int = 50,
        queues: Sequence[str] = ("default",),
        finish_within: Wait = FINISH_WITHIN,
    ) -> None:
        if type(concurrency) is not int or not 1 <= concurrency <= _MOST_CONCURRENCY:
            raise MisuseError(
                f"concurrency is {concurrency!r}.", remedy=f"Use a whole number from 1 to {_MOST_CONCURRENCY:,}."
            )
        if isinstance(queues, str) or not queues:
            raise MisuseError(f"queues is {queues!r}.", remedy='Pass a list of names, such as ("default",).')
        self.concurrency = concurrency
        self.queues = tuple(dict.fromkeys(checked_name("A queue", queue) for queue in queues))
        self.left_behind = 0
        """How many handlers did not stop when the worker was stopped. They may still run."""
        self._failure: StoreReplacedError | None = None
        self.finish_within = checked_wait(finish_within, name="finish_within")
        self._engine = engine
        self._state = "new"
        self._stop_at = math.inf
        self._stop_timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self._crew: Crew
        self._fetcher: Fetcher
        self._completer: Completer
        self._desk: Desk

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
        """Begin to work."""
        if self._state != "new":
            raise MisuseError(f"This worker is {self._state} already.", remedy="Make another one.")
        if not self._engine.definitions:
            raise MisuseError("There are no jobs that a worker could run.", remedy="Define one: @app.job().")
        self._engine.ensure_open()
        engine = self._engine
        loop = asyncio.get_running_loop()
        self._desk = desk_of(engine)
        self._completer = Completer(engine, self._answered, self._acknowledged, self._desk.trouble)
        pace, buffer = Pace(self.concurrency), Buffer(self._room)
        self._crew = Crew(engine, self.concurrency, buffer, pace, self._completer, self._lose, self._quiet)
        self._crew.tenure = Tenure(engine.session)
        self._completer.begin(self._crew.tenure)
        self._fetcher = Fetcher(engine, self.queues, self._crew, self._completer, self._desk, self._lose, self._fail)
        self._watch = Watch(engine, self._crew, self._lose)
        self._quieter = Bell()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._state = "working"
        engine.stay()
        engine.workers.append(self)
        engine.metrics.gauges.append(self._levels)
        engine.look_out(1)
        self._desk.join(self)
        self._deaf = engine.jobs.on_ready(self.queues, self._fetcher.news)
        self._crew.fill()
        self._completer.start()
        self._fetcher.start()
        self._watch.start()

    async def run(self) -> None:
        """Work until :meth:`finish` or :meth:`stop` is called, or this is cancelled, which stops it.

        Raises ``StoreReplacedError`` if the store was deleted or replaced: then nothing is left to work on.
        """
        self.open()
        try:
            await asyncio.shield(self._ended)
        finally:
            await self.stop()
        if self._failure is not None:
            raise self._failure

    def wind_down(self) -> None:
        """Begin to finish, and do not wait for it."""
        if self._state == "working":
            self._state = "finishing"
            loop = asyncio.get_running_loop()
            if self.finish_within is not None:
                self._stop_at = loop.time() + self.finish_within
                self._stop_timer = loop.call_at(self._stop_at, self._time_is_up)
            if self._crew.running:
                self._engine.leave()
            self._closing = loop.create_task(self._close(), name="interlock-worker-closing")

    def halt(self) -> None:
        """Begin to stop, and do not wait for it."""
        self.wind_down()
        if self._state == "finishing":
            self._state = "stopping"
            self._crew.stop()
            self._quieter.ring()

    def _time_is_up(self) -> None:
        if self._state == "finishing" and (running := self._crew.running):
            emit(_log, logging.WARNING, "jobs_interrupted", jobs=len(running), after=self.finish_within)
            self.halt()

    async def finish(self) -> None:
        """Fetch nothing more, return what has not started, and let what runs finish.

        What still runs after ``finish_within`` seconds is stopped as :meth:`stop` does.
        """
        self.wind_down()
        await self._closed()

    async def stop(self) -> None:
        """Like :meth:`finish`, but what runs is cancelled, and will start again without this counting as an attempt."""
        self.halt()
        await self._closed()

    async def close(self) -> None:
        """Stop."""
        await self.stop()

    async def _closed(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        try:
            self._crew.give_back_waiting()
            await self._fetcher.stop()
            await self._runners_done()
            if self._failure is not None:
                return  # nobody is left to tell
            async with asyncio.timeout(self._hand_back_seconds()):
                await self._completer.told()
                await self._desk.acknowledge_up(self)
        except Exception as error:  # noqa: BLE001 - most likely the store is away; whatever it is, this has to end
            # What is left goes back by whoever works next under this session, or when it has ended.
            self._desk.doubt()
            unacknowledged = self._completer.unacknowledged
            emit(_log, logging.WARNING, "job_hand_back_failed", unacknowledged=unacknowledged, error=one_line(error))
        finally:
            await self._tear_down()

    def _hand_back_seconds(self) -> float:
        """How long to try to tell the store, so that a supervisor need not kill this process."""
        until_all_is_over = self._stop_at + STOP_SECONDS + HAND_BACK_SECONDS - asyncio.get_running_loop().time()
        return min(self._engine.settings.store_wait, max(until_all_is_over, HAND_BACK_SECONDS))

    async def _runners_done(self) -> None:
        """Wait for what runs; once it was told to stop, only for as long as any handler may take to do so."""
        loop = asyncio.get_running_loop()
        give_up = math.inf
        while running := self._crew.running:
            if self._state == "stopping" and give_up == math.inf:
                give_up = loop.time() + min(self._engine.settings.session_margin, STOP_SECONDS)
            if loop.time() >= give_up:
                self.left_behind = len(running)
                for runner in running:
                    if runner.job is not None:
                        emit(_log, logging.ERROR, "job_did_not_stop", id=runner.job.id, job=runner.job.name)
                self._crew.leave_threads()
                return
            await self._quieter.wait(give_up - loop.time())

    async def _tear_down(self) -> None:
        engine = self._engine
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        self._watch.stop()
        self._deaf()
        await self._completer.close()
        await self._crew.dismiss()
        await self._desk.part(self)
        engine.look_out(-1)
        engine.metrics.gauges.remove(self._levels)
        engine.workers.remove(self)
        self._state = "closed"
        self._ended.set_result(None)

    # -- what happens ------------------------------------------------------------------------------------------------

    def session_began(self, session: Session) -> None:
        """There is a session to fetch under."""
        self._fetcher.news()

    def session_lost(self, session: Session) -> None:
        """What was fetched under it may be given to others soon."""
        self._lose(session)

    def taken(self, job: int, fence: int, why: str, /) -> None:
        """Somebody held the lane of a job under this fetch, or cancelled it."""
        if not self._crew.taken(job, fence, why):
            self._fetcher.early(job, fence, why)

    def missed(self) -> None:
        """Anything may have happened unheard. What has not started of a lane goes back: it may have been held."""
        self._crew.give_back_lanes()
        self._fetcher.news()

    def _lose(self, session: Session) -> None:
        """Let go of all that was fetched under a session."""
        tenure = self._crew.tenure
        if tenure.session is session and not tenure.lost:
            tenure.lost = session.lost = True
            self._desk.owe(session)
            self._crew.drop(session)
            self._fetcher.room()

    def _fail(self, error: StoreReplacedError) -> None:
        """The store is gone for good."""
        if self._failure is None:
            self._failure = error
            self.halt()

    def _answered(self, tenure: Tenure, batch: Sequence[Acknowledgement], accepted: Sequence[bool]) -> None:
        self._crew.answered(tenure, batch, accepted)

    def _acknowledged(self, ready: bool) -> None:
        self._fetcher.acknowledged(ready)

    def _room(self) -> None:
        self._fetcher.room()

    def _quiet(self) -> None:
        self._fetcher.room()
        self._quieter.ring()

    @property
    def working(self) -> bool:
        """Whether it has not been told to end."""
        return self._state == "working"

    def leave(self) -> None:
        """Have the store note that this process was told to end. May be called from any thread, and before the rest."""
        self._engine.store_client.keeper.leave()

    # -- for the desk ------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a handler has not ended, or the store was not told how some have."""
        return bool(self._crew.at_work() or self._completer.unacknowledged)

    def known(self, session: Session) -> Iterable[int]:
        """The jobs of a session that this worker answers for."""
        return [*self._crew.known(session), *self._completer.pending(session)]

    def running(self, session: Session | None = None) -> Iterable[int]:
        """Those of them whose handlers run; of any session unless told otherwise."""
        return self._crew.at_work(session)

    def job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
        """The job whose handler runs in a task. May be asked from another thread."""
        return self._crew.job_of(task)

    async def told(self, session: Session) -> None:
        """Wait until the store knows how those ended that have."""
        await self._completer.told(session)

    # -- for people --------------------------------------------------------------------------------------------------

    async def until_dry(self) -> None:
        """Wait until nothing is left that could be fetched, and nothing runs here."""
        self._fetcher.dry = asyncio.get_running_loop().create_future()
        self._fetcher.news()
        try:
            await self._fetcher.dry
        finally:
            self._fetcher.dry = None

    @property
    def counts(self) -> dict[Outcome, int]:
        """How many jobs ended how since the worker was opened."""
        return dict(self._crew.counts)

    def status(self) -> WorkerStatus:
        """What it does right now."""
        if self._state == "new":
            return WorkerStatus("new", "", self.queues, self.concurrency, (), 0, 0, {})
        now, session = self._engine.monotonic(), self._crew.tenure.session
        running = [
            RunningJob(
                job.id, job.name, job.lane, job.attempt, now - runner.started, runner.why_text if runner.why else ""
            )
            for runner in self._crew.running
            if (job := runner.job) is not None
        ]
        counts = {outcome.value: count for outcome, count in self._crew.counts.items()}
        if self._completer.refused:
            counts["refused"] = self._completer.refused
        return WorkerStatus(
            self._state,
            "" if session.lost else session.id,
            self.queues,
            self.concurrency,
            tuple(sorted(running, key=lambda job: -job.seconds)),
            self._levels()[1],
            self._completer.unacknowledged,
            counts,
            self._completer.trouble or self._fetcher.trouble,
        )

    def _levels(self) -> tuple[int, int]:
        return len(self._crew.running), self._crew.waiting
