"""What the workers of one process share in one store: the session under which they fetch.

Jobs that the store has given to the session and that no worker knows, for instance because the answer to a fetch was
lost, are leftovers and are returned. No fetch runs meanwhile, so a job that is on its way here is not mistaken for a
leftover. Jobs fetched under a session that is over are returned too, after their acknowledgements have been sent.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from interlock.clock import SystemClock
from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.chore import Chore
from interlock.jobs.worker.completer import SLOW
from interlock.jobs.worker.log_reporter import LogReporter
from interlock.jobs.worker.loop_monitor import LoopMonitor
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.pruner import prune_periodically
from interlock.jobs.worker.rescuer import rescue_periodically
from interlock.jobs.worker.sealer import seal_periodically
from interlock.jobs.worker.start_reporter import StartReporter
from interlock.jobs.worker.vacuumer import vacuum_periodically
from interlock.ports.leases import SessionEnded
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.runner_pool import RunnerPool
    from interlock.ports.jobs import FetchedJob, FetchRequest, FetchResult
    from interlock.sessions import Session

__all__ = ["Coordinator", "coordinator_of"]

_log = logging.getLogger("interlock.jobs")
_SOUND_SECONDS = 3.0
_PAUSE = 0.05
_CATCH_UP_PAUSE = 0.5


def coordinator_of(engine: JobEngine) -> Coordinator:
    """The coordinator of an engine. It outlives the workers: the next one cleans up what one left."""
    if engine.coordinator is None:
        engine.coordinator = Coordinator(engine)
    return engine.coordinator


class Coordinator:
    """One for all workers of an engine, which it knows by their runner pools."""

    def __init__(self, engine: JobEngine) -> None:
        self._engine = engine
        self._jobs = engine.jobs
        self._monotonic = engine.monotonic
        self._pools: dict[RunnerPool, None] = {}
        self._departed: dict[RunnerPool, None] = {}
        self._chores: list[asyncio.Task[None]] = []
        self._loop_monitor: LoopMonitor | None = None
        self._start_reporter = StartReporter(engine, self)
        self.log_reporter = LogReporter(engine, self)
        self._afterwards: asyncio.Task[None] | None = None
        self._troubled_at = self._monotonic()
        self._owed: dict[str, Session] = {}
        self._doubtful = False
        self._catch_up_at = -math.inf
        self._catching_up = Chore("return", engine.monotonic, self)
        self._registered: tuple[object, ...] = ()
        self._fetches = 0
        self._fetch_number = 0
        self._lock = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()

    # -- workers -----------------------------------------------------------------------------------------------------

    def join(self, pool: RunnerPool) -> None:
        """Add a worker. The first one starts the chores."""
        if not self._pools:
            loop = asyncio.get_running_loop()
            self._chores = [
                loop.create_task(rescue_periodically(self._engine, self), name="interlock-rescuer"),
                loop.create_task(prune_periodically(self._engine, self), name="interlock-pruner"),
                loop.create_task(seal_periodically(self._engine, self), name="interlock-sealer"),
                loop.create_task(vacuum_periodically(self._engine), name="interlock-vacuumer"),
                *(loop.create_task(chore(self), name="interlock-chore") for chore in self._engine.chores),
            ]
            # A loop with simulated time cannot lag behind.
            if self._loop_monitor is None and isinstance(self._engine.clock, SystemClock):
                self._loop_monitor = LoopMonitor(self._engine, self._job_of)
                self._loop_monitor.start()
        self._pools[pool] = None

    async def leave(self, pool: RunnerPool) -> None:
        """Remove a worker. The last one ends the chores."""
        self._pools.pop(pool, None)
        if not self._pools:
            if self._loop_monitor is not None:
                self._loop_monitor.stop()
                self._loop_monitor = None
            for chore in self._chores:
                chore.cancel()
            reporters = self._start_reporter.stop(), self.log_reporter.stop()
            await asyncio.gather(*self._chores, *reporters, return_exceptions=True)
        if pool.busy:
            self._departed[pool] = None
        if self._has_leftovers and (self._afterwards is None or self._afterwards.done()):
            self._afterwards = asyncio.create_task(self._clean_up(), name="interlock-leftovers")

    def report(self) -> None:
        """Report the jobs that have started and what they log, if it is time. Each watchdog calls this periodically."""
        self._start_reporter.check((*self._pools, *self._departed))
        self.log_reporter.check()

    def _job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
        """The job whose handler runs in a task; called on the thread that monitors the loop."""
        found = (pool.job_of(task) for pool in [*self._pools, *self._departed])
        return next((job for job in found if job is not None), None)

    def _departed_run(self) -> bool:
        return any(any(pool.running_ids(self._engine.session)) for pool in self._departed)

    @property
    def _has_leftovers(self) -> bool:
        """Whether there is work that no open worker will do."""
        return bool(self._departed or (not self._pools and (self._doubtful or self._owed)))

    async def close(self) -> None:
        """Prepare for the end of the session, which returns whatever is left.

        Handlers in threads that did not stop get more time: after that another worker may start their jobs.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._engine.settings.session_ttl
        while loop.time() < give_up and self._departed_run():  # noqa: ASYNC110 - other threads end it
            await asyncio.sleep(_PAUSE)
        if self._afterwards is not None:
            self._afterwards.cancel()
            await asyncio.gather(self._afterwards, return_exceptions=True)

    async def _clean_up(self) -> None:
        """Return leftovers also when no worker is open any more.

        The answer to a fetch may arrive late, and handlers that did not stop in time may end after all.
        """
        while self._has_leftovers:
            await asyncio.sleep(_PAUSE)
            if ended := [pool for pool in self._departed if not any(pool.running_ids())]:
                for pool in ended:
                    del self._departed[pool]
                self.doubt()
            await self._catch_up(self._engine.session)

    # -- trouble -----------------------------------------------------------------------------------------------------

    def note_trouble(self) -> None:
        """Note that the store was unavailable or slow."""
        self._troubled_at = self._monotonic()

    @property
    def sound(self) -> bool:
        """Whether there was no trouble for a while, so that workers who lost a session had time to come back."""
        return not self._owed and not self._lock.locked() and self._monotonic() - self._troubled_at >= _SOUND_SECONDS

    def doubt(self) -> None:
        """Look for leftovers soon: the answer to a fetch was lost."""
        self._doubtful = True

    def owe(self, session: Session) -> None:
        """Return the jobs fetched under a session that is over."""
        self._owed[session.id] = session
        self.note_trouble()

    # -- fetching ----------------------------------------------------------------------------------------------------

    async def fetch(self, session: Session, request: FetchRequest) -> tuple[FetchResult | SessionEnded, float]:
        """Fetch, while nobody looks for leftovers. Returns the answer and when the store was asked.

        The caller has to register the jobs before it awaits anything else.
        """
        while not self._open.is_set():
            await self._open.wait()
        if session.lost:
            return SessionEnded(), self._monotonic()
        self._fetches += 1
        self._idle.clear()
        asked_at = self._monotonic()
        try:
            self._fetch_number += 1
            return await self._jobs.fetch(request._replace(fetch_number=self._fetch_number)), asked_at
        except BaseException:
            self.doubt()
            raise
        finally:
            if self._monotonic() - asked_at > SLOW:
                self.note_trouble()
            self._fetches -= 1
            if not self._fetches:
                self._idle.set()

    async def prepare_fetch(self, session: Session) -> None:
        """Clean up after earlier failures, and register the workers if they changed."""
        await self._catch_up(session)
        await self._register(session)

    async def return_jobs_of(self, leaving: RunnerPool) -> None:
        """Return what one worker leaves behind, and register the others without it."""
        async with self._lock:
            await self._pay_debts()
            session = self._engine.session
            if not session.lost:
                await self._return_leftovers(session, leaving)
                self._pools.pop(leaving)
                await self._register(session)

    async def _catch_up(self, session: Session) -> None:
        """Return what is owed, and look for leftovers if there may be some.

        If that fails it is tried again later, and fetches go on meanwhile: one locked row must not stop them.
        """
        if (self._owed or self._doubtful) and self._monotonic() >= self._catch_up_at:

            async def catch_up() -> bool:
                await self._pay_debts()
                if self._doubtful:
                    self._doubtful = False
                    try:
                        await self._return_leftovers(session)
                    except BaseException:
                        self.doubt()
                        raise
                return True

            async with self._lock:
                if not await self._catching_up.attempt(catch_up):
                    self._catch_up_at = self._monotonic() + _CATCH_UP_PAUSE

    async def _register(self, session: Session) -> None:
        queues = dict.fromkeys(queue for pool in self._pools for queue in pool.queues)
        if not queues and not self._registered:
            return  # there are only direct workers, which take nothing but what callers here want
        runners = sum(pool.concurrency for pool in self._pools if pool.queues)
        by_queue = {queue: sum(pool.concurrency for pool in self._pools if queue in pool.queues) for queue in queues}
        if all(count == runners for count in by_queue.values()):
            by_queue = {}
        known = (session.id, tuple(queues), tuple(self._engine.definitions), runners)
        registered = (*known, by_queue)
        if registered != self._registered:
            try:
                await self._jobs.register_worker(*known, self._engine.versions(), by_queue)
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - only explanations depend on it
                emit(_log, logging.ERROR, "job_chore_failed", chore="register", error=one_line(error))
            self._registered = registered

    async def _pay_debts(self) -> None:
        """Return the jobs of sessions that are over, after their acknowledgements have been sent."""
        while self._owed:
            session = self._owed.pop(next(iter(self._owed)))  # it may be owed anew while this goes on
            try:
                for pool in list(self._pools):
                    await pool.completer.flush(session)
                async with self._no_fetch():
                    everybody = (*self._pools, *self._departed)
                    await self._return(session, [job for pool in everybody for job in pool.running_ids(session)])
            except BaseException:
                self.owe(session)
                raise

    async def _return_leftovers(self, session: Session, leaving: RunnerPool | None = None) -> None:
        """Return the jobs that no worker here knows."""
        async with self._no_fetch():
            known: list[int] = []
            for pool in self._pools:
                known += pool.running_ids(session) if pool is leaving else pool.known_ids(session)
            for pool in self._departed:
                known += pool.running_ids(session)
            await self._return(session, known)

    @asynccontextmanager
    async def _no_fetch(self) -> AsyncGenerator[None]:
        """Hold fetches back, and wait for those that are under way."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def _return(self, session: Session, but: list[int]) -> None:
        count = await self._jobs.return_unstarted(session.id, but, fetch_number=self._fetch_number)
        if count:
            emit(_log, logging.INFO, "jobs_returned", session=session.id, jobs=count)
