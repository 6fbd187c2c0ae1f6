"""Operations on jobs, lanes and queues, each journaled in the transaction of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.backends.postgres.journal import write_attribution
from interlock.backends.postgres.queries import JobQueries
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.backends.postgres.connection import OrderedConnection
    from interlock.backends.postgres.job_fetch import JobFetch
    from interlock.ports.journal import Attribution

__all__ = ["JobOperations"]

_sql = JobQueries()


class JobOperations:
    """Holds and releases lanes, pauses and resumes queues, cancels and retries jobs."""

    def __init__(
        self, connection: OrderedConnection, namespace: str, clock: Callable[[], float | None], fetches: JobFetch
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock
        self._fetches = fetches

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Hold a lane."""
        await self._connection.fetch(_sql.hold, self._namespace, lane, write_attribution(attribution), self._clock())
        self._fetches.lower_all()

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """Release a lane."""
        args = (self._namespace, lane, write_attribution(attribution), self._clock())
        ((was_held,),) = await self._connection.fetch(_sql.release, *args)
        self._fetches.lower_all()
        return bool(was_held)

    async def pause(self, queue: str, attribution: Attribution) -> None:
        """Pause a queue. Returns after the fetches that had begun before."""
        attributed, now = write_attribution(attribution), self._clock()
        await self._connection.fetch(_sql.pause, self._namespace, queue, attributed, now)

    async def resume(self, queue: str, attribution: Attribution) -> bool:
        """Resume a queue."""
        args = (self._namespace, queue, write_attribution(attribution), self._clock())
        ((was_paused,),) = await self._connection.fetch(_sql.resume, *args)
        self._fetches.lower_all()
        return bool(was_paused)

    async def cancel(
        self,
        id: int,  # noqa: A002
        attribution: Attribution,
        *,
        unless_fetched: bool = False,
    ) -> JobState | None:
        """Cancel a job, or request its cancellation."""
        args = (self._namespace, id, write_attribution(attribution), self._clock(), unless_fetched)
        ((state,),) = await self._connection.fetch(_sql.cancel, *args)
        self._fetches.lower_all()
        return None if state is None else JobState(state)

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now."""
        args = (self._namespace, id, write_attribution(attribution), self._clock())
        ((state,),) = await self._connection.fetch(_sql.retry, *args)
        self._fetches.lower_all()
        return None if state is None else JobState(state)
