"""Tells the store how jobs ended, many at a time.

What there is goes at once, and then whatever came up while the store was being told. While the store is away it is
told again and again: an acknowledgement counts for as long as the fetch stands, also after the session has ended.
Acknowledgements that wait for rows which another transaction has locked are set aside, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import failed_for_good, one_line
from interlock.jobs.worker.wakeup import Bell
from interlock.ports.jobs import Outcome
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.session_batch import Tenure
    from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchedJob
    from interlock.sessions import Session

__all__ = ["SLOW", "Completer"]

_log = logging.getLogger("interlock.jobs")
SLOW = 1.0
"""After so many seconds for one answer something is wrong with the store."""
_MOST_AT_ONCE = 1000
_MOST_BYTES_AT_ONCE = 4 * 1024 * 1024
_MOST_UNSETTLED = 2000
_MOST_UNSETTLED_BYTES = 64 * 1024 * 1024
_LEAST_PAUSE, _MOST_PAUSE = 0.02, 1.0
_TRIES = 3  # at an error that does not say that the store is away, before it may be one of them that is to blame
_TRIES_ALONE = 10
_LEAST_ASIDE, _MOST_ASIDE = 0.1, 1.0  # seconds until what was set aside is tried again
_MOST_NAMED = 10


class Completer:
    """Sends the acknowledgements of one worker.

    ``answered`` hears what was accepted, before anything else can happen to these jobs; ``acknowledged`` after each
    batch whether jobs became ready by it; ``troubled`` when the store is away or slow.
    """

    def __init__(
        self,
        engine: JobEngine,
        answered: Callable[[Tenure, Sequence[Acknowledgement], Sequence[bool]], None],
        acknowledged: Callable[[bool], None],
        troubled: Callable[[], None],
    ) -> None:
        self._jobs = engine.jobs
        self._monotonic = engine.monotonic
        self._answered = answered
        self._metrics = engine.metrics
        self._acknowledged = acknowledged
        self._troubled = troubled
        self._tenures: list[Tenure] = []
        self._bell = Bell()
        self._asleep = False
        self._waiters: list[asyncio.Future[None]] = []
        self._bytes = 0
        self.unacknowledged = 0
        """How many acknowledgements the store has not answered yet."""
        self.full = False
        """Whether runners are to wait."""
        self.refused = 0
        self.seconds = 0.0
        """How long an answer takes."""
        self._failures = 0
        self._unavailable = LastingFailure(engine.monotonic)
        self._blocked: dict[tuple[int, int], LastingFailure] = {}
        self._aside_pause = _LEAST_ASIDE
        self._aside_at = math.inf
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def add(self, tenure: Tenure, acknowledgement: Acknowledgement, job: FetchedJob) -> None:
        """Have the store told."""
        tenure.acknowledgements.append(acknowledgement)
        tenure.jobs.append(job)
        self.unacknowledged += 1
        if acknowledgement.result is not None:
            self._bytes += len(acknowledgement.result)
        if self._asleep:
            self._asleep = False
            self._bell.ring()
        elif self.unacknowledged >= _MOST_UNSETTLED or self._bytes >= _MOST_UNSETTLED_BYTES:
            self.full = True

    def begin(self, tenure: Tenure) -> None:
        """There will be something to say about what is fetched under another session."""
        # While something runs under a lost session, a thread for instance, there may still be something to say.
        self._tenures = [old for old in self._tenures if old.unanswered or old.session.at_work or not old.lost]
        self._tenures.append(tenure)

    @property
    def failing(self) -> bool:
        """Whether the store cannot be told: what is fetched now could not be acknowledged."""
        return bool(self._unavailable.reason)

    @property
    def trouble(self) -> str:
        """Why the store does not take acknowledgements; empty if it does."""
        if self._unavailable.reason:
            return self._unavailable.reason
        return next((blocked.reason for blocked in self._blocked.values()), "")

    def pending(self, session: Session) -> Iterator[int]:
        """The jobs of a session about which the store has not answered."""
        for tenure in self._tenures:
            if tenure.session is session:
                for acknowledgement in tenure.acknowledgements:
                    yield acknowledgement.id
                for acknowledgement, _ in tenure.aside:
                    yield acknowledgement.id

    async def room(self) -> None:
        """Wait until there is room for more."""
        while self.full:
            await self._answer()

    async def told(self, session: Session | None = None) -> None:
        """Wait until the store has been told all there is to say, or all about one session, or will not be any more."""
        while not self._closed and any(t.unanswered for t in self._tenures if session is None or t.session is session):
            await self._answer()

    def start(self) -> None:
        """Begin to tell the store."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name="interlock-completer")

    async def _work(self) -> None:
        pause = _LEAST_PAUSE
        while True:
            tenure = self._next()
            if tenure is None:
                self._asleep = True
                await self._bell.wait(self._aside_at - self._monotonic())
                self._asleep = False
                continue
            count = _fitting(tenure.acknowledgements)
            batch, jobs = tenure.acknowledgements[:count], tenure.jobs[:count]
            held = len(tenure.aside)
            ready = await self._tell(tenure, batch, jobs)
            if ready is None:
                del tenure.aside[held:]  # all of them go again
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MOST_PAUSE)
                continue
            pause = _LEAST_PAUSE
            # Known to be ours up to here.
            del tenure.acknowledgements[: len(batch)], tenure.jobs[: len(batch)]
            newly_aside = [acknowledgement for acknowledgement, _ in tenure.aside[held:]]
            self.unacknowledged -= len(batch) - len(newly_aside)
            self._bytes -= _size(batch) - _size(newly_aside)
            if self._unavailable.over():
                times, seconds = self._unavailable.times, self._unavailable.seconds
                emit(_log, logging.INFO, "job_acknowledgement_failed_over", times=times, seconds=seconds)
                ready = True  # the fetcher has waited for this
            self.full = self.unacknowledged >= _MOST_UNSETTLED or self._bytes >= _MOST_UNSETTLED_BYTES
            # After a suspect another may be fetched.
            self._acknowledged(ready or any(job.half is not None for job in jobs))
            if self._waiters:
                self._wake_waiters()

    async def close(self) -> None:
        """Tell the store no more."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _next(self) -> Tenure | None:
        if self._monotonic() >= self._aside_at:
            self._aside_at = math.inf
            for tenure in self._tenures:
                tenure.acknowledgements[:0] = [acknowledgement for acknowledgement, _ in tenure.aside]
                tenure.jobs[:0] = [job for _, job in tenure.aside]
                tenure.aside.clear()
        for tenure in self._tenures:
            if tenure.acknowledgements:
                return tenure
        return None

    async def _answer(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    async def _tell(self, tenure: Tenure, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]) -> bool | None:
        """Tell the store how these ended: whether jobs became ready by it, None if it has to be told again."""
        try:
            return await self._acknowledge(tenure, batch, jobs)
        except StoreUnavailableError as error:
            self._note_unavailable(error)
            return None
        except Exception as error:  # noqa: BLE001 - no error may keep the others from being told
            emit(_log, logging.ERROR, "job_acknowledgement_failed", jobs=len(batch), error=one_line(error))
            self._failures += 1
            if self._failures < (_TRIES_ALONE if len(batch) == 1 else _TRIES):
                return None
        self._failures = 0
        try:
            return await self._tell_apart(tenure, batch, jobs)
        except StoreUnavailableError as error:
            self._note_unavailable(error)
            return None

    async def _acknowledge(self, tenure: Tenure, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]) -> bool:
        begun = self._monotonic()
        acknowledged = await self._jobs.acknowledge(tenure.session.id, batch)
        took = self._monotonic() - begun
        self.seconds = (self.seconds + took) / 2
        if took > SLOW:
            self._troubled()
        self._failures = 0
        accepted = acknowledged.accepted
        if acknowledged.blocked or self._blocked:
            batch, jobs, accepted = self._set_aside(tenure, batch, jobs, acknowledged)
        if not all(accepted):
            self._note_refused(batch, jobs, accepted)
        self._answered(tenure, batch, accepted)
        return acknowledged.ready

    def _set_aside(
        self, tenure: Tenure, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob], acknowledged: Acknowledged
    ) -> tuple[list[Acknowledgement], list[FetchedJob], list[bool]]:
        """Keep the blocked acknowledgements for later. Returns the others with their answers."""
        others: list[tuple[Acknowledgement, FetchedJob, bool]] = []
        named = 0
        for place, (acknowledgement, job) in enumerate(zip(batch, jobs, strict=True)):
            fetch = (acknowledgement.id, acknowledgement.fence)
            why = acknowledged.blocked.get(place)
            if why is None:
                others.append((acknowledgement, job, acknowledged.accepted[place]))
                failure = self._blocked.pop(fetch, None)
                if failure is not None and failure.over():
                    seconds = failure.seconds
                    emit(
                        _log, logging.INFO, "job_acknowledgement_blocked_over", id=job.id, job=job.name, seconds=seconds
                    )
                continue
            tenure.aside.append((acknowledgement, job))
            failure = self._blocked.setdefault(fetch, LastingFailure(self._monotonic))
            if failure.failed(why) and named < _MOST_NAMED:
                named += 1
                emit(
                    _log,
                    logging.WARNING,
                    "job_acknowledgement_blocked",
                    id=job.id,
                    job=job.name,
                    lane=job.lane,
                    error=why,
                    seconds=failure.seconds,
                )
        if acknowledged.blocked:
            self._aside_at = min(self._aside_at, self._monotonic() + self._aside_pause)
            self._aside_pause = min(self._aside_pause * 2, _MOST_ASIDE)
        elif not self._blocked:
            self._aside_pause = _LEAST_ASIDE
        return [s for s, _, _ in others], [j for _, j, _ in others], [a for _, _, a in others]

    def _note_unavailable(self, error: StoreUnavailableError) -> None:
        """Count and log that the store could not be told."""
        self._troubled()
        self._metrics.unacknowledged += 1
        if self._unavailable.failed(error):
            emit(
                _log,
                logging.WARNING,
                "job_acknowledgement_failed",
                error=self._unavailable.reason,
                unacknowledged=self.unacknowledged,
                times=self._unavailable.times,
                seconds=self._unavailable.seconds,
            )

    async def _tell_apart(
        self, tenure: Tenure, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]
    ) -> bool | None:
        """One of them may be what the store cannot take: tell it of each alone. If it takes none, it is not that."""
        ready: list[bool] = []
        failed = await self._tell_each(tenure, zip(batch, jobs, strict=True), ready)
        if not ready and len(batch) > 1:
            return None
        # Once more, now that it is known to take others. Then say at least that the job has failed, and why.
        failed = await self._tell_each(tenure, [(acknowledgement, job) for acknowledgement, job, _ in failed], ready)
        less = [(failed_for_good(job, acknowledgement.ran, error), job) for acknowledgement, job, error in failed]
        for acknowledgement, job, error in await self._tell_each(tenure, less, ready):
            if not ready:
                return None
            emit(_log, logging.CRITICAL, "job_acknowledgement_dropped", id=job.id, job=job.name, error=one_line(error))
            self._answered(tenure, [acknowledgement], [False])
        return any(ready)

    async def _tell_each(
        self, tenure: Tenure, ends: Iterable[tuple[Acknowledgement, FetchedJob]], ready: list[bool]
    ) -> list[tuple[Acknowledgement, FetchedJob, Exception]]:
        """Tell the store of one after the other; those that it could not take."""
        failed: list[tuple[Acknowledgement, FetchedJob, Exception]] = []
        for acknowledgement, job in ends:
            try:
                ready.append(await self._acknowledge(tenure, [acknowledgement], [job]))
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001
                failed.append((acknowledgement, job, error))
        return failed

    def _note_refused(
        self, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob], accepted: Sequence[bool]
    ) -> None:
        """Count and log what came too late. Returning what somebody else returned before is not worth a word."""
        for acknowledgement, job, good in zip(batch, jobs, accepted, strict=True):
            if not good and acknowledgement.outcome is not Outcome.RETURNED:
                self.refused += 1
                self._metrics.late += 1
                emit(
                    _log,
                    logging.WARNING,
                    "job_acknowledgement_refused",
                    id=job.id,
                    job=job.name,
                    fence=job.fence,
                    outcome=acknowledgement.outcome.value,
                )


def _size(acknowledgements: Iterable[Acknowledgement]) -> int:
    """The bytes of their results."""
    return sum(
        len(acknowledgement.result) for acknowledgement in acknowledgements if acknowledgement.result is not None
    )


def _fitting(acknowledgements: Sequence[Acknowledgement]) -> int:
    """How many of them to send at once: so many, and with large results or traces fewer."""
    size = 0
    for count, acknowledgement in enumerate(acknowledgements):
        if count == _MOST_AT_ONCE:
            return count
        if acknowledgement.result is not None or acknowledgement.trace:
            size += len(acknowledgement.result or "") + len(acknowledgement.trace)
            if size > _MOST_BYTES_AT_ONCE and count:
                return count
    return len(acknowledgements)
