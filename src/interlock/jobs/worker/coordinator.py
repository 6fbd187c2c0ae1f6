"""What the workers of one process share in one store: the session that they fetch under.

Whatever the store has given to the session and no worker knows of is a leftover, for instance of a fetch whose answer
was lost, and is handed back. So that nothing is taken for a leftover that is just on its way here, nothing is fetched
meanwhile. What was fetched under a session that is over goes back too, after all that is to be said about it was said.
"""

from __future__ import annotations

import asyncio
import logging
import math
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from interlock.clock import SystemClock
from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.completer import SLOW
from interlock.jobs.worker.loop_watch import LoopWatch
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.pruner import prune_now_and_then
from interlock.jobs.worker.rescuer import rescue_now_and_then
from interlock.jobs.worker.vacuumer import vacuum
from interlock.ports.leases import SessionEnded
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from interlock.jobs.engine import JobEngine
    from interlock.ports.jobs import FetchedJob, FetchRequest, FetchResult
    from interlock.sessions import Session

    class Colleague(Protocol):
        """One of the workers."""

        @property
        def queues(self) -> tuple[str, ...]:
            """What it works on."""
            ...

        @property
        def concurrency(self) -> int:
            """How many jobs it runs at once."""
            ...

        @property
        def busy(self) -> bool:
            """Whether a handler has not ended, or the store was not told how some have."""
            ...

        def known(self, session: Session) -> Iterable[int]:
            """The jobs of a session that it answers for."""
            ...

        def running(self, session: Session | None = None) -> Iterable[int]:
            """Those of them whose handlers run; of any session unless told otherwise."""
            ...

        def job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
            """The job whose handler runs in a task. May be asked from another thread."""
            ...

        async def told(self, session: Session) -> None:
            """Wait until the store knows how those ended that have."""
            ...


__all__ = ["Desk", "desk_of"]

_log = logging.getLogger("interlock.jobs")
_SOUND_SECONDS = 3.0
_PAUSE = 0.05
_CATCH_UP_PAUSE = 0.5


def desk_of(engine: JobEngine) -> Desk:
    """The desk of an engine, which outlasts its workers: what one left behind is seen to by the next."""
    if engine.desk is None:
        engine.desk = Desk(engine)
    return engine.desk


class Desk:
    """One for all workers of an engine."""

    def __init__(self, engine: JobEngine) -> None:
        self._engine = engine
        self._jobs = engine.jobs
        self._monotonic = engine.monotonic
        self._workers: dict[Colleague, None] = {}
        self._departed: dict[Colleague, None] = {}
        self._chores: list[asyncio.Task[None]] = []
        self._loop_watch: LoopWatch | None = None
        self._afterwards: asyncio.Task[None] | None = None
        self._troubled_at = self._monotonic()
        self._owed: dict[str, Session] = {}
        self._doubtful = False
        self._catch_up_at = -math.inf
        self._failure = LastingFailure(engine.monotonic)
        self._attended: tuple[object, ...] = ()
        self._under_way = 0
        self._fetch_number = 0
        self._lock = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()

    # -- who is here -------------------------------------------------------------------------------------------------

    def join(self, worker: Colleague) -> None:
        """Begin to work. The first one sees to it that the chores are done."""
        if not self._workers:
            loop = asyncio.get_running_loop()
            self._chores = [
                loop.create_task(rescue_now_and_then(self._engine, self), name="interlock-rescuer"),
                loop.create_task(prune_now_and_then(self._engine, self), name="interlock-pruner"),
                loop.create_task(vacuum(self._engine), name="interlock-vacuumer"),
            ]
            # A loop with simulated time cannot lag behind.
            if self._loop_watch is None and isinstance(self._engine.clock, SystemClock):
                self._loop_watch = LoopWatch(self._engine.metrics, self._job_of, self._note_blocked)
                self._loop_watch.start()
        self._workers[worker] = None

    async def part(self, worker: Colleague) -> None:
        """Leave the chores to others."""
        self._workers.pop(worker, None)
        if not self._workers:
            if self._loop_watch is not None:
                self._loop_watch.stop()
                self._loop_watch = None
            for chore in self._chores:
                chore.cancel()
            await asyncio.gather(*self._chores, return_exceptions=True)
        if worker.busy:
            self._departed[worker] = None
        if self._is_left and (self._afterwards is None or self._afterwards.done()):
            self._afterwards = asyncio.create_task(self._see_to_the_rest(), name="interlock-leftovers")

    def _job_of(self, task: asyncio.Task[Any]) -> FetchedJob | None:
        """The job whose handler runs in a task; asked by the thread that watches the loop."""
        found = (worker.job_of(task) for worker in [*self._workers, *self._departed])
        return next((job for job in found if job is not None), None)

    def _note_blocked(self, seconds: float | None, by: str) -> None:
        self._engine.store_client.keeper.note_blocked(seconds, by)

    def _still_run(self) -> bool:
        return any(any(worker.running(self._engine.session)) for worker in self._departed)

    @property
    def _is_left(self) -> bool:
        """Whether there is something that no worker will see to."""
        return bool(self._departed or (not self._workers and (self._doubtful or self._owed)))

    async def close(self) -> None:
        """The session is about to end, and what is left of it goes back then at the latest.

        Handlers that did not stop, in threads, are waited for once more: others may begin their jobs after that.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self._engine.settings.session_seconds
        while loop.time() < give_up and self._still_run():  # noqa: ASYNC110 - other threads end it
            await asyncio.sleep(_PAUSE)
        if self._afterwards is not None:
            self._afterwards.cancel()
            await asyncio.gather(self._afterwards, return_exceptions=True)

    async def _see_to_the_rest(self) -> None:
        """Look for leftovers also when nobody works here any more.

        A fetch whose answer was lost may come late, and handlers that did not stop in time may end at last.
        """
        while self._is_left:
            await asyncio.sleep(_PAUSE)
            if ended := [worker for worker in self._departed if not any(worker.running())]:
                for worker in ended:
                    del self._departed[worker]
                self.doubt()
            with suppress(StoreUnavailableError):
                await self._catch_up(self._engine.session)

    # -- trouble -----------------------------------------------------------------------------------------------------

    def trouble(self) -> None:
        """The store could not be reached, or was very slow."""
        self._troubled_at = self._monotonic()

    @property
    def sound(self) -> bool:
        """Whether all has been well for a while: whoever lost a session by the same outage had time to come back."""
        return not self._owed and not self._lock.locked() and self._monotonic() - self._troubled_at >= _SOUND_SECONDS

    def doubt(self) -> None:
        """The answer to a fetch was lost: look for leftovers."""
        self._doubtful = True

    def owe(self, session: Session) -> None:
        """A session is over, and what was fetched in it is to be handed back."""
        self._owed[session.id] = session
        self.trouble()

    # -- fetching ----------------------------------------------------------------------------------------------------

    async def fetch(self, session: Session, request: FetchRequest) -> tuple[FetchResult | SessionEnded, float]:
        """Fetch, while nobody looks for leftovers. A worker has to know what it gives before anything else runs.

        Also gives when the store was asked.
        """
        while not self._open.is_set():
            await self._open.wait()
        if session.lost:
            return SessionEnded(), self._monotonic()
        self._under_way += 1
        self._idle.clear()
        begun = self._monotonic()
        try:
            self._fetch_number += 1
            return await self._jobs.fetch(request._replace(fetch_number=self._fetch_number)), begun
        except BaseException:
            self.doubt()
            raise
        finally:
            if self._monotonic() - begun > SLOW:
                self.trouble()
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def get_ready(self, session: Session) -> None:
        """Before a fetch: see to it that nothing is left of what went wrong, and that people see who works."""
        await self._catch_up(session)
        await self._attend(session)

    async def acknowledge_up(self, leaving: Colleague) -> None:
        """Hand back all that one worker leaves behind, and do not count with it any more."""
        async with self._lock:
            await self._acknowledge_debts()
            session = self._engine.session
            if not session.lost:
                await self._look_for_leftovers(session, leaving)
                self._workers.pop(leaving)
                await self._attend(session)

    async def _catch_up(self, session: Session) -> None:
        """Hand back what is owed, and look for leftovers if it is time to.

        Where that fails it is tried again later, and fetches go on meanwhile: one locked row must not stop them.
        """
        if (self._owed or self._doubtful) and self._monotonic() >= self._catch_up_at:
            async with self._lock:
                try:
                    await self._acknowledge_debts()
                    if self._doubtful:
                        self._doubtful = False
                        try:
                            await self._look_for_leftovers(session)
                        except BaseException:
                            self.doubt()
                            raise
                except StoreUnavailableError as error:
                    self.trouble()
                    self._catch_up_at = self._monotonic() + _CATCH_UP_PAUSE
                    if self._failure.failed(error):
                        emit(_log, logging.WARNING, "job_chore_failed", chore="hand back", error=one_line(error))
                else:
                    self._failure.over()

    async def _attend(self, session: Session) -> None:
        queues = dict.fromkeys(queue for worker in self._workers for queue in worker.queues)
        runners = sum(worker.concurrency for worker in self._workers)
        attended = (session.id, tuple(queues), tuple(self._engine.definitions), runners)
        if attended != self._attended:
            try:
                await self._jobs.attend(*attended, self._engine.reads())
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - it only serves those who look
                emit(_log, logging.ERROR, "job_chore_failed", chore="attend", error=one_line(error))
            self._attended = attended

    async def _acknowledge_debts(self) -> None:
        """Hand back what was fetched under sessions that are over, after what is to be said about it."""
        while self._owed:
            session = self._owed.pop(next(iter(self._owed)))  # it may be owed anew while this goes on
            try:
                for worker in list(self._workers):
                    await worker.told(session)
                async with self._nothing_fetched():
                    everybody = (*self._workers, *self._departed)
                    await self._hand_back(session, [job for each in everybody for job in each.running(session)])
            except BaseException:
                self.owe(session)
                raise

    async def _look_for_leftovers(self, session: Session, leaving: Colleague | None = None) -> None:
        """Hand back what nobody here knows of."""
        async with self._nothing_fetched():
            known: list[int] = []
            for worker in self._workers:
                known += worker.running(session) if worker is leaving else worker.known(session)
            for worker in self._departed:
                known += worker.running(session)
            await self._hand_back(session, known)

    @asynccontextmanager
    async def _nothing_fetched(self) -> AsyncGenerator[None]:
        """While nothing is on its way here."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def _hand_back(self, session: Session, but: list[int]) -> None:
        count = await self._jobs.return_unstarted(session.id, but, fetch_number=self._fetch_number)
        if count:
            emit(_log, logging.INFO, "jobs_handed_back", session=session.id, jobs=count)
