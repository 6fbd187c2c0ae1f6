"""The handle of an enqueued job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from interlock.clock import as_datetime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from interlock.arguments import Wait
    from interlock.jobs.views import LogLine, Progress
    from interlock.ports.job_views import JobView
    from interlock.ports.jobs import JobState

    class JobReader(Protocol):
        """What a handle needs of the jobs it came from."""

        async def result_of(self, job: int, wait: Wait) -> Any: ...
        async def status_of(self, job: int) -> JobStatus: ...
        async def progress_of(self, job: int) -> Progress | None: ...
        def logs(self, job: int, *, after: int, follow: bool) -> AsyncIterator[LogLine]: ...
        async def ensure_committed(self, job: int, accepted_at: float | None) -> None: ...


__all__ = ["Handle", "JobStatus"]

R_co = TypeVar("R_co", covariant=True)
_DEFAULT_WAIT = 60.0


class JobStatus(NamedTuple):
    """The status of a job."""

    id: int
    """The ID of the newest job, if it was superseded."""
    name: str
    state: JobState
    attempt: int
    """The number of attempts, including a running one."""
    crashes: int
    """How many workers died while this job was their only suspect."""
    queue: str
    lane: str
    enqueued_at: datetime
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error: str
    """The last failure, or why it was parked, cancelled or discarded."""

    @classmethod
    def of(cls, view: JobView) -> JobStatus:
        """The status of a job, without its arguments, result and attempts."""
        return cls(
            view.id,
            view.name,
            view.state,
            view.attempt,
            view.crashes,
            view.queue,
            view.lane,
            as_datetime(view.enqueued_at),
            as_datetime(view.due_at),
            None if view.fetched_at is None else as_datetime(view.fetched_at),
            None if view.finished_at is None else as_datetime(view.finished_at),
            view.error,
        )


class Handle(Generic[R_co]):
    """One job: ``await handle.result(wait=60)``. It follows the job to the one that superseded it, if one did."""

    __slots__ = ("_accepted_at", "_jobs", "_uncommitted", "created", "id")

    def __init__(
        self,
        jobs: JobReader,
        job: int,
        *,
        created: bool = True,
        uncommitted: bool = False,
        accepted_at: float | None = None,
    ) -> None:
        self._jobs = jobs
        self._uncommitted = uncommitted
        """Whether it was enqueued in a caller's transaction, of whose commit nothing is known yet."""
        self._accepted_at = accepted_at
        self.id = job
        """The ID of the job. Any process that shares the store can create a handle of it: ``jobs.handle(id)``."""
        self.created = created
        """False if the enqueue that returned this handle created no job, because this one already had its key."""

    async def result(self, *, wait: Wait = _DEFAULT_WAIT) -> R_co:
        """What the handler returned, once the job is done.

        Raises :class:`JobFailedError` if it failed permanently or was quarantined, :class:`JobCancelledError` if it was
        cancelled or discarded, :class:`JobTimeoutError` if it has not ended within ``wait``, and
        :class:`ResultGoneError` if the result is no longer kept. Inside a handler, raises :class:`DeadlockError` if the
        job could not run before the handler has ended. Raises :class:`NotFoundError` if the job was enqueued in a
        transaction that has not been committed, or was rolled back; so do the other methods.
        """
        await self._ensure_committed()
        result: R_co = await self._jobs.result_of(self.id, wait)
        return result

    async def status(self) -> JobStatus:
        """The status of the job; raises :class:`NotFoundError` once it is no longer kept."""
        await self._ensure_committed()
        return await self._jobs.status_of(self.id)

    async def progress(self) -> Progress | None:
        """How far the job has come, as its handler last reported; None if it has reported nothing."""
        await self._ensure_committed()
        return await self._jobs.progress_of(self.id)

    async def logs(self, *, after: int = 0, follow: bool = False) -> AsyncIterator[LogLine]:
        """The lines of the job's log; see :meth:`Jobs.logs`."""
        await self._ensure_committed()
        async for line in self._jobs.logs(self.id, after=after, follow=follow):
            yield line

    async def _ensure_committed(self) -> None:
        if self._uncommitted:
            await self._jobs.ensure_committed(self.id, self._accepted_at)
            self._uncommitted = False

    def __repr__(self) -> str:
        return f"<Handle of job {self.id}>"
