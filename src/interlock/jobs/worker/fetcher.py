"""Keeps the buffer filled: fetches when there is room and there may be something to fetch."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import TYPE_CHECKING

from interlock.errors import MisuseError, StoreReplacedError, StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.session_batch import Tenure
from interlock.jobs.worker.wakeup import Bell
from interlock.ports.jobs import FetchRequest, FetchResult, StartWindow
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.completer import Completer
    from interlock.jobs.worker.coordinator import Desk
    from interlock.jobs.worker.runner_pool import Crew
    from interlock.ports.jobs import HandlerVersion
    from interlock.sessions import Session

__all__ = ["Fetcher"]

_log = logging.getLogger("interlock.jobs")
_MOST_BYTES = 8 * 1024 * 1024
_MOST_BYTES_AHEAD = 32 * 1024 * 1024
_LEAST_PAUSE, _MOST_PAUSE = 0.02, 1.0
_MOST_EARLY = 10_000
_MOST_ASIDE = 4000


class Fetcher:
    """Fetches for one worker.

    ``lose`` is called with a session that turns out to be over, ``ended`` with the error after which none follows.
    """

    def __init__(
        self,
        engine: JobEngine,
        queues: tuple[str, ...],
        crew: Crew,
        completer: Completer,
        desk: Desk,
        lose: Callable[[Session], None],
        ended: Callable[[StoreReplacedError], None],
    ) -> None:
        self._engine = engine
        self._queues = queues
        self._crew = crew
        self._completer = completer
        self._desk = desk
        self._lose = lose
        self._ended = ended
        self._bell = Bell()
        self._news = True
        self._size = 1.0  # of the arguments of a job, on average
        self._left = False
        self._look_at = math.inf
        self._look_at_refused = -math.inf
        self._stopping = False
        self._fetching = False
        self._early: dict[tuple[int, int], str] | None = None
        self._failure = LastingFailure(engine.monotonic)
        self._task: asyncio.Task[None] | None = None
        self.dry: asyncio.Future[None] | None = None
        """Done when nothing is left that could be fetched, and nothing is under way here. Set by who wants to know."""

    @property
    def trouble(self) -> str:
        """Why nothing can be fetched; empty if it can."""
        return self._failure.reason

    def start(self) -> None:
        """Begin to fetch."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name="interlock-fetcher")

    async def stop(self) -> None:
        """Fetch nothing more. A fetch that is under way is waited for, so that what it gives is not lost."""
        self._stopping = True
        self._bell.ring()
        if self._task is not None:
            if not self._fetching:
                self._task.cancel()
            await asyncio.wait([self._task])
        if self.dry is not None and not self.dry.done():
            self.dry.set_exception(MisuseError("The worker was closed.", remedy="Let it run until nothing is left."))

    def news(self) -> None:
        """There may be something to fetch."""
        self._news = True
        self._bell.ring()

    def room(self) -> None:
        """There may be room for more."""
        self._bell.ring()

    def acknowledged(self, ready: bool) -> None:
        """The store has been told of some ends, and jobs may have become ready by that."""
        if ready or (self.dry is not None and self._quiet):
            self.news()

    def early(self, job: int, fence: int, why: str) -> bool:
        """Something was said about a fetch that nobody here knows; it may be one that is just being made."""
        if self._early is None or len(self._early) >= _MOST_EARLY:
            return False
        self._early[job, fence] = why
        return True

    # -- the loop ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        pause = _LEAST_PAUSE
        while not self._stopping:
            try:
                await self._round()
            except StoreUnavailableError as error:
                self._desk.trouble()
                if self._failure.failed(error):
                    times, seconds = self._failure.times, self._failure.seconds
                    why = self._failure.reason
                    emit(_log, logging.WARNING, "job_fetch_failed", error=why, times=times, seconds=seconds)
            except Exception as error:  # noqa: BLE001 - whatever failed is tried again
                emit(_log, logging.ERROR, "job_fetch_failed", error=one_line(error))
            else:
                pause = _LEAST_PAUSE
                if self._failure.over():
                    times, seconds = self._failure.times, self._failure.seconds
                    emit(_log, logging.INFO, "job_fetch_failed_over", times=times, seconds=seconds)
                continue
            self._news = True  # whatever was to be fetched still is
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only keeps the workers apart
            pause = min(pause * 2, _MOST_PAUSE)

    async def _round(self) -> None:
        """Fetch, if there is reason to, else wait for one."""
        session = await self._live_session()
        await self._desk.get_ready(session)
        if session.lost:
            return
        crew = self._crew
        crew.fill()
        now = crew.monotonic()
        if now >= self._look_at:
            self._news, self._look_at = True, math.inf
        if self._news or self._left:
            most, at_once, low = self._request()
            if most > 0 and (self._news or at_once):
                await self._fetch(session, most, at_once, low)
                return
        seconds = self._engine.settings.recheck_seconds if self._news else self._look_at - now
        await self._bell.wait(seconds)

    def _request(self) -> tuple[int, int, int]:
        """How many to fetch, how many of them could start at once, and when to fetch again."""
        crew = self._crew
        crew.pace.look(crew.monotonic())
        free, buffered = crew.free, crew.buffer.count
        ahead = min(crew.pace.ahead, int(_MOST_BYTES_AHEAD / self._size))
        if self._completer.full or self._completer.failing:
            return 0, 0, 0
        at_once = max(0, free - len(crew.buffer))
        low = ahead // 2
        if not at_once and buffered > low:
            return 0, 0, low
        most = min(crew.pace.fetch, max(at_once, free + ahead - crew.waiting), int(_MOST_BYTES / self._size))
        return max(1, most) if at_once else most, at_once, low

    def _run(self) -> int:
        """How many jobs of one lane to take."""
        if self._crew.aside >= _MOST_ASIDE:
            return 1
        return self._crew.pace.run(self._completer.seconds)

    def _refused_reads(self) -> tuple[HandlerVersion, ...]:
        """What this worker can read, if it is time to look for jobs that workers of other versions refused."""
        now = self._crew.monotonic()
        if now < self._look_at_refused:
            return ()
        self._look_at_refused = now + self._engine.settings.recheck_seconds * 0.7  # so that each idle look is one
        return self._engine.reads()

    async def _fetch(self, session: Session, most: int, at_once: int, low: int) -> None:
        quiet = self._quiet
        self._news = False
        self._fetching, self._early = True, {}
        try:
            names = tuple(self._engine.definitions)
            within = self._crew.allowance.seconds
            reads = self._refused_reads()
            request = FetchRequest(
                session.id, self._queues, names, most, at_once, self._run(), start_within=within, reads=reads
            )
            answer, asked_at = await self._desk.fetch(session, request)
        finally:
            self._fetching = False
            early, self._early = self._early, None
        if not isinstance(answer, FetchResult):
            self._news = True
            self._lose(session)
            return
        jobs, look_again = answer
        if session.lost:
            self._lose(session)  # what was fetched goes back with it
            return
        if jobs:
            self._size = (self._size + max(1.0, sum(len(job.arguments) for job in jobs) / len(jobs))) / 2
            if any(job.paced for job in jobs):
                window = StartWindow(asked_at, asked_at + within)
                jobs = [job._replace(window=window) if job.paced else job for job in jobs]
            self._crew.put(jobs, low)
            for (job, fence), why in (early or {}).items():
                self._crew.taken(job, fence, why)
            if self._stopping:
                self._crew.give_back_waiting()
        # Some are given only if they can start at once.
        self._left = len(jobs) >= at_once
        if len(jobs) >= most or look_again <= 0:
            self._news = True
        else:
            recheck = self._engine.settings.recheck_seconds * random.uniform(0.75, 1.0)  # noqa: S311
            self._look_at = self._crew.monotonic() + min(look_again, recheck)
            if not jobs and quiet and not self._news and self.dry is not None and not self.dry.done():
                self.dry.set_result(None)

    @property
    def _quiet(self) -> bool:
        """Whether nothing is under way here that could make jobs ready."""
        return not self._crew.running and not self._crew.waiting and not self._completer.unacknowledged

    async def _live_session(self) -> Session:
        """The session to fetch under; waits for the next one if it is lost, however long that takes."""
        session = self._engine.session
        while session.lost:
            self._lose(session)
            keeper, wait = self._engine.store_client.keeper, self._engine.settings.store_wait
            try:
                session = await keeper.next_session(session, wait)
            except StoreUnavailableError:
                continue
            except StoreReplacedError as error:
                self._ended(error)
                raise
        if self._crew.tenure.session is not session:
            tenure = Tenure(session)
            self._completer.begin(tenure)
            self._crew.tenure = tenure
            self._news = True
        return session
