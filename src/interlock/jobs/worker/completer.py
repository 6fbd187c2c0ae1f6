"""Acknowledges finished jobs to the store, many at a time.

The completer sends what there is at once, and then whatever finished while the store was answering. While the store is
unavailable it retries: an acknowledgement counts for as long as the fetch is in force, also after the session has
ended. Acknowledgements that wait for rows locked by another transaction are set aside, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.jobs.worker.outcomes import failed, one_line, returned
from interlock.jobs.worker.wakeup import Wakeup
from interlock.ports.jobs import Outcome
from interlock.telemetry.lasting import LastingFailure
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.buffer import Buffer
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.jobs.worker.session_batch import SessionBatch
    from interlock.jobs.worker.wakeup import FetchSignal
    from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchedJob
    from interlock.sessions import Session

__all__ = ["SLOW", "Completer"]

_log = logging.getLogger("interlock.jobs")
SLOW = 1.0
"""Seconds for one answer after which the store counts as troubled."""
_MAX_BATCH = 1000
_MAX_BATCH_BYTES = 4 * 1024 * 1024
_MAX_UNACKNOWLEDGED = 2000
_MAX_UNACKNOWLEDGED_BYTES = 64 * 1024 * 1024
_MIN_PAUSE, _MAX_PAUSE = 0.02, 1.0
_TRIES = 3  # at an error other than unavailability, before one of the acknowledgements may be to blame
_TRIES_ALONE = 10
_MIN_BLOCKED_PAUSE, _MAX_BLOCKED_PAUSE = 0.1, 1.0
_MAX_NAMED = 10
_FOLLOW_UP_BYTES = 500  # what a follow-up takes besides its arguments


class Completer:
    """Sends the acknowledgements of one worker."""

    def __init__(self, engine: JobEngine, buffer: Buffer, coordinator: Coordinator, signal: FetchSignal) -> None:
        self._engine = engine
        self._jobs = engine.jobs
        self._monotonic = engine.monotonic
        self._metrics = engine.metrics
        self._logs = engine.logs.open
        self._buffer = buffer
        self._coordinator = coordinator
        self._signal = signal
        self._session_batches: list[SessionBatch] = [buffer.session_batch]
        self._wakeup = Wakeup()
        self._asleep = False
        self._waiters: list[asyncio.Future[None]] = []
        self._bytes = 0
        self._follow_ups = False
        """Whether any acknowledgement has had follow-ups."""
        self.unacknowledged = 0
        """How many acknowledgements the store has not answered yet."""
        self.full = False
        """Whether runners have to wait."""
        self.refused = 0
        """How many acknowledgements came too late."""
        self.seconds = 0.0
        """How long an answer takes on average."""
        self._failures = 0
        self._unavailable = LastingFailure(engine.monotonic)
        self._blocked: dict[tuple[int, int], LastingFailure] = {}
        self._blocked_pause = _MIN_BLOCKED_PAUSE
        self._blocked_until = math.inf
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    def add(self, session_batch: SessionBatch, acknowledgement: Acknowledgement, job: FetchedJob) -> None:
        """Acknowledge a job soon."""
        session_batch.acknowledgements.append(acknowledgement)
        session_batch.jobs.append(job)
        self.unacknowledged += 1
        if acknowledgement.result is not None or acknowledgement.follow_ups:
            self._bytes += _bytes_of(acknowledgement)
            self._follow_ups = self._follow_ups or bool(acknowledgement.follow_ups)
        if self._asleep:
            self._asleep = False
            self._wakeup.wake()
        elif self.unacknowledged >= _MAX_UNACKNOWLEDGED or self._bytes >= _MAX_UNACKNOWLEDGED_BYTES:
            self.full = True

    def add_session(self, session_batch: SessionBatch) -> None:
        """Accept acknowledgements for jobs fetched under another session."""
        # While a job runs under a lost session, in a thread for instance, its acknowledgement is still to come.
        self._session_batches = [
            old for old in self._session_batches if old.unanswered or old.session.at_work or not old.lost
        ]
        self._session_batches.append(session_batch)

    @property
    def failing(self) -> bool:
        """Whether the store is unavailable: a job fetched now could not be acknowledged."""
        return bool(self._unavailable.error)

    @property
    def trouble(self) -> str:
        """Why the store does not take acknowledgements; empty if it does."""
        if self._unavailable.error:
            return self._unavailable.error
        return next((blocked.error for blocked in self._blocked.values()), "")

    def pending(self, session: Session) -> Iterator[int]:
        """The jobs of a session whose acknowledgements the store has not answered."""
        for session_batch in self._session_batches:
            if session_batch.session is session:
                for acknowledgement in session_batch.acknowledgements:
                    yield acknowledgement.id
                for acknowledgement, _ in session_batch.blocked:
                    yield acknowledgement.id

    async def wait_for_room(self) -> None:
        """Wait until runners may continue."""
        while self.full:
            await self._next_answer()

    async def flush(self, session: Session | None = None) -> None:
        """Wait until the store has answered everything, or everything of one session, or the completer is closed."""
        while not self._closed and any(
            batch.unanswered for batch in self._session_batches if session is None or batch.session is session
        ):
            await self._next_answer()

    def start(self) -> None:
        """Start to send acknowledgements."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name="interlock-completer")

    async def close(self) -> None:
        """Stop sending."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._wake_waiters()

    # -- the loop ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        pause = _MIN_PAUSE
        while True:
            session_batch = self._next()
            if session_batch is None:
                self._asleep = True
                await self._wakeup.wait(self._blocked_until - self._monotonic())
                self._asleep = False
                continue
            count = _fitting(session_batch.acknowledgements)
            batch, jobs = session_batch.acknowledgements[:count], session_batch.jobs[:count]
            blocked_before = len(session_batch.blocked)
            ready = await self._send(session_batch, batch, jobs)
            if ready is None:
                del session_batch.blocked[blocked_before:]  # the whole batch is sent again
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
                continue
            pause = _MIN_PAUSE
            # Until here the jobs have to be known as ours.
            del session_batch.acknowledgements[: len(batch)], session_batch.jobs[: len(batch)]
            newly_blocked = [acknowledgement for acknowledgement, _ in session_batch.blocked[blocked_before:]]
            self.unacknowledged -= len(batch) - len(newly_blocked)
            self._bytes -= _size(batch) - _size(newly_blocked)
            if self._unavailable.over():
                times, seconds = self._unavailable.times, self._unavailable.seconds
                emit(_log, logging.INFO, "job_acknowledgement_failed_over", times=times, seconds=seconds)
                ready = True  # the fetcher has waited for this
            self.full = self.unacknowledged >= _MAX_UNACKNOWLEDGED or self._bytes >= _MAX_UNACKNOWLEDGED_BYTES
            # After a suspect another may be fetched.
            if ready or self._may_be_drained or any(job.half is not None for job in jobs):
                self._signal.announce()
            if self._waiters:
                self._wake_waiters()

    @property
    def _may_be_drained(self) -> bool:
        """Whether a caller waits for the last job, and this may have been it."""
        return self._signal.draining and not self.unacknowledged and not self._buffer.count

    def _next(self) -> SessionBatch | None:
        if self._monotonic() >= self._blocked_until:
            self._blocked_until = math.inf
            for session_batch in self._session_batches:
                session_batch.acknowledgements[:0] = [acknowledgement for acknowledgement, _ in session_batch.blocked]
                session_batch.jobs[:0] = [job for _, job in session_batch.blocked]
                session_batch.blocked.clear()
        for session_batch in self._session_batches:
            if session_batch.acknowledgements:
                return session_batch
        return None

    async def _next_answer(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- one batch ---------------------------------------------------------------------------------------------------

    async def _send(
        self, session_batch: SessionBatch, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]
    ) -> bool | None:
        """Send a batch. Returns whether jobs became ready by it; None if it has to be sent again."""
        try:
            return await self._acknowledge(session_batch, batch, jobs)
        except StoreUnavailableError as error:
            self._note_unavailable(error)
            return None
        except Exception as error:  # noqa: BLE001 - no error may keep the other acknowledgements back
            emit(_log, logging.ERROR, "job_acknowledgement_failed", jobs=len(batch), error=one_line(error))
            self._failures += 1
            if self._failures < (_TRIES_ALONE if len(batch) == 1 else _TRIES):
                return None
        self._failures = 0
        try:
            return await self._send_separately(session_batch, batch, jobs)
        except StoreUnavailableError as error:
            self._note_unavailable(error)
            return None

    async def _acknowledge(
        self, session_batch: SessionBatch, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]
    ) -> bool:
        logged = bool(self._logs)
        if logged:
            await self._coordinator.log_reporter.flush(batch)
        if self._follow_ups:
            batch = await self._with_ids(batch)
        started = self._monotonic()
        acknowledged = await self._jobs.acknowledge(session_batch.session.id, batch)
        took = self._monotonic() - started
        self.seconds = (self.seconds + took) / 2
        if took > SLOW:
            self._coordinator.note_trouble()
        self._failures = 0
        accepted = acknowledged.accepted
        if acknowledged.blocked or self._blocked:
            batch, jobs, accepted = self._set_blocked_aside(session_batch, batch, jobs, acknowledged)
        if not all(accepted):
            self._note_refused(batch, jobs, accepted)
        if self._follow_ups:
            self._count_follow_ups(batch, accepted)
        if logged:
            self._coordinator.log_reporter.acknowledged(batch)
        self._release(session_batch, batch, accepted)
        return acknowledged.ready

    async def _with_ids(self, batch: Sequence[Acknowledgement]) -> list[Acknowledgement]:
        """The acknowledgements with an ID for each follow-up."""
        count = sum(len(acknowledgement.follow_ups) for acknowledgement in batch)
        ids = iter(await self._engine.follow_up_ids(count) if count else ())
        return [
            acknowledgement._replace(follow_ups=tuple(job._replace(id=next(ids)) for job in acknowledgement.follow_ups))
            if acknowledgement.follow_ups
            else acknowledgement
            for acknowledgement in batch
        ]

    def _count_follow_ups(self, batch: Sequence[Acknowledgement], accepted: Sequence[bool]) -> None:
        for acknowledgement, good in zip(batch, accepted, strict=True):
            for job in acknowledgement.follow_ups if good else ():
                self._metrics.of(job.name).enqueued += 1

    def _release(self, session_batch: SessionBatch, batch: Sequence[Acknowledgement], accepted: Sequence[bool]) -> None:
        """Let the jobs that follow in their lanes start, or return them."""
        for job in self._buffer.release(session_batch, batch, accepted):
            self.add(session_batch, returned(job), job)

    def _set_blocked_aside(
        self,
        session_batch: SessionBatch,
        batch: Sequence[Acknowledgement],
        jobs: Sequence[FetchedJob],
        acknowledged: Acknowledged,
    ) -> tuple[list[Acknowledgement], list[FetchedJob], list[bool]]:
        """Keep the blocked acknowledgements for later. Returns the others with their answers."""
        others: list[tuple[Acknowledgement, FetchedJob, bool]] = []
        named = 0
        for position, (acknowledgement, job) in enumerate(zip(batch, jobs, strict=True)):
            fetch = (acknowledgement.id, acknowledgement.fence)
            cause = acknowledged.blocked.get(position)
            if cause is None:
                others.append((acknowledgement, job, acknowledged.accepted[position]))
                failure = self._blocked.pop(fetch, None)
                if failure is not None and failure.over():
                    seconds = failure.seconds
                    emit(
                        _log, logging.INFO, "job_acknowledgement_blocked_over", id=job.id, job=job.name, seconds=seconds
                    )
                continue
            session_batch.blocked.append((acknowledgement, job))
            failure = self._blocked.setdefault(fetch, LastingFailure(self._monotonic))
            if failure.failed(cause) and named < _MAX_NAMED:
                named += 1
                emit(
                    _log,
                    logging.WARNING,
                    "job_acknowledgement_blocked",
                    id=job.id,
                    job=job.name,
                    lane=job.lane,
                    error=cause,
                    seconds=failure.seconds,
                )
        if acknowledged.blocked:
            self._blocked_until = min(self._blocked_until, self._monotonic() + self._blocked_pause)
            self._blocked_pause = min(self._blocked_pause * 2, _MAX_BLOCKED_PAUSE)
        elif not self._blocked:
            self._blocked_pause = _MIN_BLOCKED_PAUSE
        return [s for s, _, _ in others], [j for _, j, _ in others], [a for _, _, a in others]

    def _note_unavailable(self, error: StoreUnavailableError) -> None:
        """Count and log that the store was unavailable."""
        self._coordinator.note_trouble()
        self._metrics.unacknowledged += 1
        if self._unavailable.failed(error):
            emit(
                _log,
                logging.WARNING,
                "job_acknowledgement_failed",
                error=self._unavailable.error,
                unacknowledged=self.unacknowledged,
                times=self._unavailable.times,
                seconds=self._unavailable.seconds,
            )

    async def _send_separately(
        self, session_batch: SessionBatch, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob]
    ) -> bool | None:
        """Send each acknowledgement alone, since one of them may be what the store rejects.

        If the store rejects all of them, the fault is the store's: returns None, so that they are sent again.
        """
        ready: list[bool] = []
        rejected = await self._send_each(session_batch, zip(batch, jobs, strict=True), ready)
        if not ready and len(batch) > 1:
            return None
        # Once more, now that the store is known to accept others. Then report at least that the job failed, and why.
        rejected = await self._send_each(
            session_batch, [(acknowledgement, job) for acknowledgement, job, _ in rejected], ready
        )
        failures = [(failed(job, acknowledgement.ran, error), job) for acknowledgement, job, error in rejected]
        for acknowledgement, job, error in await self._send_each(session_batch, failures, ready):
            if not ready:
                return None
            emit(_log, logging.CRITICAL, "job_acknowledgement_dropped", id=job.id, job=job.name, error=one_line(error))
            self._release(session_batch, [acknowledgement], [False])
        return any(ready)

    async def _send_each(
        self, session_batch: SessionBatch, ends: Iterable[tuple[Acknowledgement, FetchedJob]], ready: list[bool]
    ) -> list[tuple[Acknowledgement, FetchedJob, Exception]]:
        """Send acknowledgements one after the other. Returns those that the store rejected."""
        rejected: list[tuple[Acknowledgement, FetchedJob, Exception]] = []
        for acknowledgement, job in ends:
            try:
                ready.append(await self._acknowledge(session_batch, [acknowledgement], [job]))
            except StoreUnavailableError:
                raise
            except Exception as error:  # noqa: BLE001 - the caller decides what becomes of it
                rejected.append((acknowledgement, job, error))
        return rejected

    def _note_refused(
        self, batch: Sequence[Acknowledgement], jobs: Sequence[FetchedJob], accepted: Sequence[bool]
    ) -> None:
        """Count and log acknowledgements that came too late. Jobs that were only to be returned are not logged."""
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
    """The bytes of their results and follow-ups."""
    return sum(map(_bytes_of, acknowledgements))


def _bytes_of(acknowledgement: Acknowledgement) -> int:
    size = 0 if acknowledgement.result is None else len(acknowledgement.result)
    if acknowledgement.follow_ups:
        size += sum(_FOLLOW_UP_BYTES + len(job.arguments) for job in acknowledgement.follow_ups)
    return size


def _fitting(acknowledgements: Sequence[Acknowledgement]) -> int:
    """How many to send at once: up to a fixed number, fewer if results or traces are large."""
    size = 0
    for count, acknowledgement in enumerate(acknowledgements):
        if count == _MAX_BATCH:
            return count
        if acknowledgement.result is not None or acknowledgement.trace or acknowledgement.follow_ups:
            size += _bytes_of(acknowledgement) + len(acknowledgement.trace)
            if size > _MAX_BATCH_BYTES and count:
                return count
    return len(acknowledgements)
