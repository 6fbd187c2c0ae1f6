"""Jobs in SQLite. Each operation is one immediate transaction; reads use snapshots and never wait for writers."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from interlock.backends.sqlite import job_acknowledge, job_fetch, job_logs, job_operations, job_vacuum
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.job_rows import JobRows
from interlock.backends.sqlite.job_transactions import enqueue_steps
from interlock.ports.jobs import FetchResult

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from interlock.backends.sqlite.job_notifier import JobNotifier
    from interlock.backends.sqlite.job_ready_watcher import ReadyWatcher
    from interlock.backends.sqlite.job_rows import CommitNotice, Reservations
    from interlock.clock import Clock
    from interlock.ports.job_logs import JobReport, LogBounds
    from interlock.ports.jobs import (
        Acknowledged,
        Acknowledgement,
        FetchRequest,
        HandlerVersion,
        JobState,
        NewJob,
        Rescued,
        SessionEnded,
    )
    from interlock.ports.journal import Attribution
    from interlock.ports.transactions import Database, EnqueuedInTransaction, Steps

__all__ = ["SqliteJobs"]

T = TypeVar("T")
_STALL = 1.0


class Run(Protocol):
    """Runs a function with a connection and returns its result."""

    async def __call__(self, do: Callable[[sqlite3.Connection], T]) -> T: ...


class SqliteJobs:
    """Implements the jobs port, given a writer, a reader and a notifier."""

    def __init__(
        self,
        run: Run,
        look: Run,
        notifier: JobNotifier,
        namespace: str,
        clock: Clock,
        draw_fence: Callable[[sqlite3.Connection], int],
        reservations: Reservations | None = None,
    ) -> None:
        self._run = run
        self._look = look
        self._notifier = notifier
        self._namespace = namespace
        self._now = clock.now
        self._monotonic = clock.monotonic
        self._draw_fence = draw_fence
        self._reservations = reservations
        self.ready_watcher: ReadyWatcher | None = None
        """Set if other processes may use the same store."""
        self.path: Path | None = None
        """The store's file; None if it is in memory."""
        self.on_ready = notifier.on_ready

    def rows(self, db: sqlite3.Connection) -> JobRows:
        """Return the rows inside the current transaction."""
        return JobRows(db, self._namespace, self._now(), self._draw_fence, self._reservations)

    async def ids(self, count: int) -> range:
        """Reserve job IDs."""
        return await self._do(lambda rows: rows.numbers("id", count))

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
        """Enqueue jobs."""
        return await self._do(lambda rows: enqueue(rows, jobs, again=again))

    def enqueue_in_transaction(self, jobs: Sequence[NewJob]) -> Steps[EnqueuedInTransaction]:
        """Enqueue jobs on a caller's own connection."""

        def rows(database: Database) -> JobRows:
            return self.rows(cast("sqlite3.Connection", database))  # it has what enqueuing needs

        return enqueue_steps(jobs, self.path, rows)

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Fetch jobs for a session."""
        ready_watcher = self.ready_watcher
        if ready_watcher is None:
            return await self._do(lambda rows: job_fetch.fetch(rows, request))
        ready_watcher.fetch_started(request)
        batch = await self._do(lambda rows: job_fetch.fetch(rows, request))
        if isinstance(batch, FetchResult) and len(batch.jobs) < request.limit and batch.recheck_in > 0:
            ready_watcher.fetch_incomplete(request, batch.recheck_in, self._now())
        else:
            ready_watcher.fetch_complete(request)
        return batch

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """Acknowledge jobs."""
        return await self._do(lambda rows: job_acknowledge.acknowledge(rows, session, acknowledgements))

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return a session's jobs unstarted."""
        return await self._do(lambda rows: job_acknowledge.return_unstarted(rows, session, but, fetch_number))

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        """Rescue the jobs of dead sessions.

        Rescues none if the transaction started late: after a stall of the store, live sessions must renew first.
        """
        asked = self._monotonic()

        def rescue(rows: JobRows) -> Sequence[Rescued]:
            return [] if self._monotonic() - asked > _STALL else job_acknowledge.rescue(rows, limit)

        return await self._do(rescue)

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
        queue_runners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Register a worker."""
        await self._do(lambda rows: job_vacuum.attend(rows, session, queues, names, runners, reads, queue_runners))

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        """Record which fetched jobs have started."""
        await self._do(lambda rows: job_vacuum.report_started(rows, session, started))

    async def append_logs(self, reports: Sequence[JobReport], bounds: LogBounds) -> Sequence[bool]:
        """Append to the logs of fetched jobs."""
        return await self._do(lambda rows: job_logs.append_logs(rows, reports, bounds)) if reports else []

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Return the jobs that have ended; the session is notified of the others."""
        # Watched first: a job may end as soon as the store knows that it is watched.
        self._notifier.watch(session, ids)
        ended = await self._do(lambda rows: job_vacuum.watch_end(rows, session, ids))
        if self.ready_watcher is not None:
            self.ready_watcher.forget_reported()
        self._notifier.unwatch(session, ended)
        return ended

    # -- people ----------------------------------------------------------------------------------------------------

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Hold a lane."""
        await self._do(lambda rows: job_operations.hold(rows, lane, attribution))

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Release a lane."""
        return await self._do(lambda rows: job_operations.release(rows, lane, attribution))

    async def pause(self, queue: str, attribution: Attribution) -> None:
        """Pause a queue."""
        await self._do(lambda rows: job_operations.pause(rows, queue, attribution))

    async def resume(self, queue: str, attribution: Attribution) -> bool:
        """Resume a queue."""
        return await self._do(lambda rows: job_operations.resume(rows, queue, attribution))

    async def cancel(
        self,
        id: int,  # noqa: A002
        attribution: Attribution,
        *,
        unless_fetched: bool = False,
    ) -> JobState | None:
        """Cancel a job, or ask its worker to."""
        return await self._do(lambda rows: job_operations.cancel(rows, id, attribution, unless_fetched=unless_fetched))

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Retry a job now."""
        return await self._do(lambda rows: job_operations.retry(rows, id, attribution))

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        """Delete what is past its retention."""
        return await self._do(lambda rows: job_vacuum.prune(rows, keep_history, limit))

    async def vacuum(self) -> float:
        """Do nothing: SQLite reuses the space of deleted rows."""
        return math.inf

    async def write(self, work: Callable[[JobRows], T]) -> T:
        """Run ``work`` in a transaction with jobs, and send its notifications."""
        return await self._do(work)

    async def read(self, work: Callable[[JobRows], T]) -> T:
        """Run ``work`` in a snapshot."""
        return await self._look(lambda db: work(self.rows(db)))

    async def _do(self, work: Callable[[JobRows], T]) -> T:
        """Run ``work`` in a transaction, and send its notifications after the commit."""

        def do(db: sqlite3.Connection) -> tuple[T, CommitNotice]:
            rows = self.rows(db)
            return work(rows), rows.notice()

        result, notice = await self._run(do)
        self._notifier.notify(notice)
        return result
