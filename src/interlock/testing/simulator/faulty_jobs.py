"""Jobs as one simulated process sees them: at the end of its wire."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from interlock.errors import StoreUnavailableError
from interlock.testing.simulator.job_events import (
    JobCancelled,
    JobRetried,
    JobsAcknowledged,
    JobsEnqueued,
    JobsFetched,
    JobsHandedBack,
    JobsRescued,
    QueuePaused,
    QueueResumed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.ports.job_logs import JobReport, LogBounds
    from interlock.ports.jobs import (
        Acknowledged,
        Acknowledgement,
        FetchRequest,
        FetchResult,
        HandlerVersion,
        JobState,
        JobStore,
        NewJob,
        Rescued,
        SessionEnded,
    )
    from interlock.ports.journal import Attribution
    from interlock.ports.transactions import EnqueuedInTransaction, Steps
    from interlock.testing.simulator.watcher import Watcher
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyJobs"]


class FaultyJobs:
    """Keeps the jobs port over another's."""

    def __init__(self, jobs: JobStore, wire: Wire, watcher: Watcher) -> None:
        self._jobs = jobs
        self._call = wire.call
        self._post = wire.post
        self._watcher = watcher
        self._accepted: set[int] = set()

    async def ids(self, count: int) -> range:
        """Reserve ids."""
        return await self._call("ids", (), lambda: self._jobs.ids(count))

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
        """Accept jobs."""
        told = again

        async def operation() -> Mapping[int, int]:
            nonlocal told
            # The way to the store may bring it twice; then the second time is a repetition.
            try:
                existing = await self._jobs.enqueue(jobs, again=told)
            except StoreUnavailableError:
                raise
            except Exception:
                if not self._accepted.issuperset(job.id for job in jobs):
                    raise
                return {}  # it came late, after its repetition, and was refused
            told = True
            self._accepted.update(job.id for job in jobs)
            self._watcher.saw(JobsEnqueued, [job for job in jobs if job.id not in existing])
            return existing

        return await self._call("enqueue", [f"j{job.id}" for job in jobs], operation)

    def enqueue_in_transaction(self, jobs: Sequence[NewJob]) -> Steps[EnqueuedInTransaction]:
        """Accept jobs on a caller's own connection, which is none of this wire."""
        return self._jobs.enqueue_in_transaction(jobs)

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Give jobs to a session."""

        async def operation() -> FetchResult | SessionEnded:
            answer = await self._jobs.fetch(request)
            self._watcher.saw(JobsFetched, request.session, request.fetch_number, answer)
            return answer

        return await self._call("fetch_jobs", (_fetches(request.session),), operation, once=True)

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """End fetches."""
        acknowledgements = tuple(acknowledgements)

        async def operation() -> Acknowledged:
            acknowledged = await self._jobs.acknowledge(session, acknowledgements)
            self._watcher.saw(JobsAcknowledged, session, acknowledgements, acknowledged)
            return acknowledged

        return await self._call("acknowledge_jobs", (f"\0acknowledge {session}",), operation)

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return what a session has fetched."""
        but = tuple(but)

        async def operation() -> int:
            count = await self._jobs.return_unstarted(session, but, fetch_number=fetch_number)
            self._watcher.saw(JobsHandedBack, session, but, fetch_number, count)
            return count

        return await self._call("return_unstarted", (_fetches(session),), operation)

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        """Take the jobs of sessions that have ended."""

        async def operation() -> Sequence[Rescued]:
            rescued = await self._jobs.rescue(limit=limit)
            if rescued:
                self._watcher.saw(JobsRescued, rescued)
            return rescued

        return await self._call("rescue", (), operation)

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
        queue_runners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Register what a worker runs."""
        known = (session, queues, names, runners, reads, queue_runners)
        await self._call("register_worker", (), lambda: self._jobs.register_worker(*known))

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        """Record which fetched jobs have started."""
        await self._call("report_started", (), lambda: self._jobs.report_started(session, started))

    async def append_logs(self, reports: Sequence[JobReport], bounds: LogBounds) -> Sequence[bool]:
        """Append to the logs of fetched jobs."""
        return await self._call("append_logs", (), lambda: self._jobs.append_logs(reports, bounds))

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Have news brought by the wire."""
        return self._jobs.on_ready(queues, lambda: self._post(call))

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Which jobs have ended."""
        return await self._call("watch_end", (), lambda: self._jobs.watch_end(session, ids))

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Hold a lane."""
        await self._call("hold", (), lambda: self._jobs.hold(lane, attribution))

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Let a lane go on."""
        return await self._call("release", (), lambda: self._jobs.release(lane, attribution))

    async def pause(self, queue: str, attribution: Attribution) -> None:
        """Pause a queue."""

        async def operation() -> None:
            await self._jobs.pause(queue, attribution)
            self._watcher.saw(QueuePaused, queue)

        await self._call("pause", (), operation)

    async def resume(self, queue: str, attribution: Attribution) -> bool:
        """Resume a queue."""

        async def operation() -> bool:
            self._watcher.saw(QueueResumed, queue)
            return await self._jobs.resume(queue, attribution)

        return await self._call("resume", (), operation)

    async def cancel(
        self,
        id: int,  # noqa: A002
        attribution: Attribution,
        *,
        unless_fetched: bool = False,
    ) -> JobState | None:
        """End a job, or ask for its end."""

        async def operation() -> JobState | None:
            state = await self._jobs.cancel(id, attribution, unless_fetched=unless_fetched)
            self._watcher.saw(JobCancelled, id, state)
            return state

        return await self._call("cancel", (), operation)

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now."""

        async def operation() -> JobState | None:
            state = await self._jobs.retry(id, attribution)
            self._watcher.saw(JobRetried, id, state)
            return state

        return await self._call("retry", (), operation)

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        """Remove what is old."""
        return await self._call("prune", (), lambda: self._jobs.prune(keep_history, limit=limit))

    async def vacuum(self) -> float:
        """Vacuum the space of rows that have gone."""
        return await self._call("vacuum", (), self._jobs.vacuum)


def _fetches(session: str) -> str:
    """Fetches and returns of one session take effect in the order begun."""
    return f"\0fetches {session}"
