"""Fetches jobs for one worker, whenever it has room and there may be something to fetch."""

from __future__ import annotations

import asyncio
import logging
import math
import random
from typing import TYPE_CHECKING

from interlock.errors import MisuseError, StoreUnavailableError
from interlock.jobs.worker.outcomes import one_line
from interlock.jobs.worker.session_batch import SessionBatch
from interlock.ports.jobs import FetchedJob, FetchRequest, FetchResult, StartWindow, paused_queue
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.jobs.worker.runner_pool import RunnerPool
    from interlock.jobs.worker.wakeup import FetchSignal
    from interlock.ports.jobs import HandlerVersion
    from interlock.sessions import Session

__all__ = ["Fetcher"]

_log = logging.getLogger("interlock.jobs")
_MAX_BYTES = 8 * 1024 * 1024
_MAX_PREFETCH_BYTES = 32 * 1024 * 1024
_MIN_PAUSE, _MAX_PAUSE = 0.02, 1.0
_MAX_EARLY = 10_000
_MAX_FOLLOWING = 4000


class Fetcher:
    """Keeps the buffer of one worker filled, and passes on messages about the jobs it has fetched."""

    def __init__(self, engine: JobEngine, pool: RunnerPool, coordinator: Coordinator, signal: FetchSignal) -> None:
        self._engine = engine
        self._pool = pool
        self._completer = pool.completer
        self._coordinator = coordinator
        self._signal = signal
        self._argument_bytes = 1.0  # of a job, on average
        self._more = False
        self._poll_at = math.inf
        self._poll_unreadable_at = -math.inf
        self._stopping = False
        self._fetching = False
        self._early: dict[tuple[int, int], str] | None = None
        self._pauses: set[str] = set()
        """Messages about paused queues whose jobs were returned, since the last fetch."""
        self._failure = LastingFailure(engine.monotonic)
        self._drained: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        """Ends with ``StoreReplacedError`` if the store was deleted or replaced, so that no session will follow."""

    @property
    def trouble(self) -> str:
        """Why nothing can be fetched; empty if it can."""
        return self._failure.error

    def start(self) -> None:
        """Start to fetch."""
        self.task = asyncio.get_running_loop().create_task(self._work(), name="interlock-fetcher")

    async def stop(self) -> None:
        """Fetch nothing more. A fetch under way is waited for, so that its jobs are not lost."""
        self._stopping = True
        self._signal.stop()
        self._signal.wake()
        if self.task is not None:
            if not self._fetching:
                self.task.cancel()
            await asyncio.wait([self.task])
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(MisuseError("The worker was closed.", remedy="Let it run until it is idle."))

    async def wait_until_drained(self) -> None:
        """Wait until there is nothing to fetch, and no job is under way here."""
        self._drained = asyncio.get_running_loop().create_future()
        self._signal.draining = True
        self._signal.announce()
        try:
            await self._drained
        finally:
            self._drained, self._signal.draining = None, False

    # -- messages ----------------------------------------------------------------------------------------------------

    def session_began(self, session: Session) -> None:
        """Fetch under the new session."""
        self._signal.announce()

    def session_lost(self, session: Session) -> None:
        """Drop what was fetched under the session: other workers may get it soon."""
        self._pool.lose_session(session)

    def revoked(self, job: int, fence: int, cause: str) -> None:
        """A person held the lane of a fetched job, paused its queue, or cancelled the job."""
        if queue := paused_queue(cause):
            if self._early is not None:
                self._early[job, fence] = cause  # a fetch is under way, which may have begun before the pause
            if cause not in self._pauses:
                self._pauses.add(cause)
                self._pool.return_queue(queue)
            return
        if not self._pool.revoke(job, fence, cause) and self._early is not None and len(self._early) < _MAX_EARLY:
            self._early[job, fence] = cause  # it may be about a job whose fetch is still under way

    def messages_missed(self) -> None:
        """Return what has not started, since its lane may have been held or its queue paused, and fetch again."""
        self._pool.return_waiting()
        self._signal.announce()

    # -- the loop ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        pause = _MIN_PAUSE
        while not self._stopping:
            session = await self._live_session()
            try:
                await self._round(session)
            except StoreUnavailableError as error:
                self._coordinator.note_trouble()
                if self._failure.failed(error):
                    times, seconds, cause = self._failure.times, self._failure.seconds, self._failure.error
                    emit(_log, logging.WARNING, "job_fetch_failed", error=cause, times=times, seconds=seconds)
            except Exception as error:  # noqa: BLE001 - a fetch is tried again, whatever the error
                emit(_log, logging.ERROR, "job_fetch_failed", error=one_line(error))
            else:
                pause = _MIN_PAUSE
                if self._failure.over():
                    times, seconds = self._failure.times, self._failure.seconds
                    emit(_log, logging.INFO, "job_fetch_failed_over", times=times, seconds=seconds)
                continue
            self._signal.pending = True  # the jobs are still to be fetched
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - only keeps the workers apart
            pause = min(pause * 2, _MAX_PAUSE)

    async def _live_session(self) -> Session:
        """The session to fetch under. Waits for the next one if it is lost, however long that takes."""
        session = self._engine.session
        while session.lost:
            self._pool.lose_session(session)
            keeper, wait = self._engine.store_client.keeper, self._engine.settings.store_wait
            try:
                session = await keeper.next_session(session, wait)
            except StoreUnavailableError:
                continue
        buffer = self._pool.buffer
        if buffer.session_batch.session is not session:
            session_batch = SessionBatch(session)
            self._completer.add_session(session_batch)
            buffer.session_batch = session_batch
            self._signal.pending = True
        return session

    async def _round(self, session: Session) -> None:
        """Fetch if there is room and a reason to; otherwise wait for one."""
        await self._coordinator.prepare_fetch(session)
        if session.lost:
            return
        pool, signal = self._pool, self._signal
        pool.fill()
        now = pool.monotonic()
        self._note_poll(now)
        if signal.pending or self._more:
            limit, startable, low = self._room()
            if limit > 0 and (signal.pending or startable):
                await self._fetch(session, limit, startable, low)
                return
        seconds = self._engine.settings.recheck_interval if signal.pending else self._poll_at - now
        await signal.wait(seconds)

    def _note_poll(self, now: float) -> None:
        """Fetch again if the last answer said that there may be something by now."""
        if now >= self._poll_at:
            self._signal.pending, self._poll_at = True, math.inf

    def _room(self) -> tuple[int, int, int]:
        """How many jobs to fetch, how many of them could start at once, and at how many left to fetch again."""
        pool = self._pool
        throughput = pool.throughput
        throughput.sample(pool.monotonic())
        free, buffered = pool.free, pool.buffer.count
        prefetch = min(throughput.prefetch, int(_MAX_PREFETCH_BYTES / self._argument_bytes))
        if self._completer.full or self._completer.failing:
            return 0, 0, 0
        startable = max(0, free - len(pool.buffer))
        low = prefetch // 2
        if not startable and buffered > low:
            return 0, 0, low
        by_size = int(_MAX_BYTES / self._argument_bytes)
        limit = min(throughput.fetch_size, max(startable, free + prefetch - pool.waiting), by_size)
        return max(1, limit) if startable else limit, startable, low

    def _run_length(self) -> int:
        """How many consecutive jobs of one lane to fetch."""
        if self._pool.buffer.following_count >= _MAX_FOLLOWING:
            return 1
        return self._pool.throughput.run_length(self._completer.seconds)

    def _versions_if_due(self) -> tuple[HandlerVersion, ...]:
        """This worker's versions, if it is time to look for jobs that other versions could not read."""
        now = self._pool.monotonic()
        if now < self._poll_unreadable_at:
            return ()
        self._poll_unreadable_at = now + self._engine.settings.recheck_interval * 0.7  # so that every idle poll looks
        return self._engine.versions()

    def _request(self, session: Session, limit: int, startable: int, within: float) -> FetchRequest:
        return FetchRequest(
            session.id,
            self._pool.queues,
            tuple(self._engine.definitions),
            limit,
            startable,
            self._run_length(),
            start_within=within,
            reads=self._versions_if_due(),
        )

    async def _fetch(self, session: Session, limit: int, startable: int, low: int) -> None:
        pool, signal = self._pool, self._signal
        idle = self._idle
        signal.pending = False
        self._fetching, self._early = True, {}
        try:
            within = pool.start_latency.bound
            request = self._request(session, limit, startable, within)
            answer, asked_at = await self._coordinator.fetch(session, request)
        finally:
            self._fetching = False
            early, self._early = self._early, None
        if not isinstance(answer, FetchResult):
            signal.pending = True
            pool.lose_session(session)
            return
        jobs, recheck_in = answer
        signal.note_fetch(found=bool(jobs))
        if session.lost:
            pool.lose_session(session)  # the fetched jobs are returned with it
            return
        if jobs:
            size = max(1.0, sum(len(job.arguments) for job in jobs) / len(jobs))
            self._argument_bytes = (self._argument_bytes + size) / 2
            if any(job.paced or job.expires_in is not None for job in jobs):
                jobs = [_with_window(job, asked_at, within) for job in jobs]
            self._pauses.clear()
            pool.put(jobs, low)
            for (job, fence), cause in (early or {}).items():
                self.revoked(job, fence, cause)
            if self._stopping:
                pool.return_waiting()
        # Some jobs are given only if they can start at once.
        self._more = len(jobs) >= startable
        if len(jobs) >= limit or recheck_in <= 0:
            signal.pending = True
        else:
            recheck = self._engine.settings.recheck_interval * random.uniform(0.75, 1.0)  # noqa: S311
            self._poll_at = pool.monotonic() + min(recheck_in, recheck)
            drained = self._drained
            if not jobs and idle and not signal.pending and drained is not None and not drained.done():
                drained.set_result(None)

    @property
    def _idle(self) -> bool:
        """Whether nothing is under way here that could make jobs ready."""
        return not self._pool.running and not self._pool.waiting and not self._completer.unacknowledged


def _with_window(job: FetchedJob, asked_at: float, within: float) -> FetchedJob:
    """Set when a job with a pace, or that expires, may start."""
    if job.expires_in is None:
        return job._replace(window=StartWindow(asked_at, asked_at + within)) if job.paced else job
    start_by = asked_at + (min(within, job.expires_in) if job.paced else job.expires_in)
    return job._replace(window=StartWindow(asked_at, start_by, job.paced))
