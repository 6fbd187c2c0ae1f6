"""Jobs as rows. Each operation calls one function in the database: one round trip."""

from __future__ import annotations

import json
import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from interlock.backends.handler_versions import encode_versions
from interlock.backends.pacing import micros
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.job_acknowledge import JobAcknowledge
from interlock.backends.postgres.job_enqueue import JobEnqueue
from interlock.backends.postgres.job_fetch import JobFetch
from interlock.backends.postgres.job_logs import append_logs
from interlock.backends.postgres.job_operations import JobOperations
from interlock.backends.postgres.job_transactions import enqueue_steps
from interlock.backends.postgres.job_vacuum import JobVacuum
from interlock.backends.postgres.queries import JobQueries
from interlock.backends.postgres.ready_notifications import ReadyNotifications
from interlock.ports.leases import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from interlock.backends.postgres.messages import PostgresMessages
    from interlock.backends.postgres.pool import Pool
    from interlock.clock import Clock
    from interlock.ports.job_logs import JobReport, LogBounds
    from interlock.ports.jobs import (
        Acknowledged,
        Acknowledgement,
        FetchRequest,
        FetchResult,
        HandlerVersion,
        JobState,
        NewJob,
        Rescued,
        SessionEnded,
    )
    from interlock.ports.journal import Attribution
    from interlock.ports.transactions import EnqueuedInTransaction, Steps
    from interlock.settings import Settings

__all__ = ["PostgresJobs"]

_sql = JobQueries()


class PostgresJobs:
    """Implements the jobs port. Fetches and acknowledgements use separate connections and run concurrently."""

    def __init__(
        self,
        pool: Pool,
        messages: PostgresMessages,
        settings: Settings,
        clock: Clock | None,
    ) -> None:
        wait = settings.store_wait / 2
        self._namespace = settings.namespace
        self._clock = clock_of(clock)
        self._fetches, self._ends, self._operations = (OrderedConnection(pool, wait) for _ in range(3))
        self._upkeep = OrderedConnection(pool, wait)  # may take long, and a rescue must not wait for it
        which = (self._namespace, self._clock)
        self._enqueue = JobEnqueue(pool, wait, *which, self.enqueued)
        self._fetch = JobFetch(self._fetches, *which)
        self._acknowledge = JobAcknowledge(self._ends, self._operations, *which, self._fetch)
        self._operate = JobOperations(self._operations, *which, self._fetch)
        self._ready_notifications = ReadyNotifications(messages, self._fetch.lower)
        self._vacuum = JobVacuum(pool, self._upkeep, wait)
        self.identity: str | None = None
        """What distinguishes this database from others; None before the store was opened."""

    async def ids(self, count: int) -> range:
        """Draw unique IDs."""
        return await self._enqueue.ids(count)

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
        """Accept jobs. Calls that come at the same time are batched; short lists do not wait for long ones."""
        return await self._enqueue.enqueue(jobs, again=again)

    def enqueue_in_transaction(self, jobs: Sequence[NewJob]) -> Steps[EnqueuedInTransaction]:
        """Accept jobs on a caller's own connection."""
        return enqueue_steps(jobs, self._namespace, self.identity, self._clock())

    def enqueued(self, queues: Iterable[str]) -> None:
        """Note that these queues have new jobs, so that this process's fetches scan from the start."""
        for queue in queues:
            self._fetch.lower(self._pool(queue))

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Fetch jobs for a session."""
        return await self._fetch.fetch(request)

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """Acknowledge fetched jobs in one transaction."""
        return await self._acknowledge.acknowledge(session, acknowledgements)

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return the jobs that a session has fetched and not started."""
        return await self._acknowledge.return_unstarted(session, but, fetch_number=fetch_number)

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        """Rescue the jobs of sessions that have ended."""
        return await self._acknowledge.rescue(limit)

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
        queue_runners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Record what a worker works on."""
        by_queue = json.dumps(dict(queue_runners)) if queue_runners else None
        known = (list(queues), list(names), runners, encode_versions(reads), by_queue)
        await self._operations.fetch(_sql.register_worker, self._namespace, session, *known)

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        """Record which fetched jobs have started."""
        if started:
            ids, fences = zip(*started, strict=True)
            await self._operations.fetch(_sql.report_started, self._namespace, session, ids, fences)

    async def append_logs(self, reports: Sequence[JobReport], bounds: LogBounds) -> Sequence[bool]:
        """Append to the logs of fetched jobs."""
        return await append_logs(self._ends, self._namespace, self._clock(), reports, bounds)

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back when jobs may be ready."""
        return self._ready_notifications.listen([self._pool(queue) for queue in queues], call)

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Return the jobs that have ended; the session is notified of the others."""
        ((ended,),) = await self._operations.fetch(_sql.watch_end, self._namespace, session, list(ids))
        return list(ended)

    async def turns(self, session: str) -> Turns:
        """Return watched jobs that have ended, in case the notifications were lost."""
        rows = await self._operations.fetch(_sql.ended, self._namespace, session)
        return Turns(tuple(f"{session}.j{row[0]}" for row in rows), math.inf)

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Hold a lane."""
        await self._operate.hold(lane, attribution)

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Release a lane."""
        return await self._operate.release(lane, attribution)

    async def pause(self, queue: str, attribution: Attribution) -> None:
        """Pause a queue."""
        await self._operate.pause(queue, attribution)

    async def resume(self, queue: str, attribution: Attribution) -> bool:
        """Resume a queue."""
        return await self._operate.resume(queue, attribution)

    async def cancel(
        self,
        id: int,  # noqa: A002
        attribution: Attribution,
        *,
        unless_fetched: bool = False,
    ) -> JobState | None:
        """Cancel a job, or request its cancellation."""
        return await self._operate.cancel(id, attribution, unless_fetched=unless_fetched)

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now."""
        return await self._operate.retry(id, attribution)

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        """Remove history and results that were kept long enough."""
        args = (self._namespace, micros(keep_history), limit, self._clock())
        return int((await self._upkeep.fetch(_sql.prune, *args))[0][0])

    async def vacuum(self) -> float:
        """Vacuum the tables that a fetch reads."""
        return await self._vacuum.run()

    async def close(self) -> None:
        """Wait for submitted operations."""
        await self._enqueue.close()
        for connection in (self._fetches, self._ends, self._operations, self._upkeep):
            await connection.close()

    def _pool(self, queue: str) -> str:
        return f"{self._namespace}/{queue}"
