"""Jobs for synchronous code: ``app.sync.jobs``, or alone ``Jobs.from_url(url).sync``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator, Sequence

    from interlock.arguments import Wait
    from interlock.connections import Connection
    from interlock.explanation import Explanation
    from interlock.jobs.handle import Handle, JobStatus
    from interlock.jobs.job import Call
    from interlock.jobs.jobs import Jobs
    from interlock.jobs.views import JobView, LogLine, Progress
    from interlock.operations import BulkResult
    from interlock.portal import Portal
    from interlock.ports.jobs import JobState
    from interlock.reasons import Reason

__all__ = ["SyncHandle", "SyncJobs"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
R1 = TypeVar("R1")
R2 = TypeVar("R2")
R3 = TypeVar("R3")
R4 = TypeVar("R4")
R5 = TypeVar("R5")
R6 = TypeVar("R6")
_DEFAULT_WAIT = 60.0


class SyncHandle(Generic[R_co]):
    """One job, for synchronous code: ``handle.result(wait=60)``; see :class:`Handle`."""

    __slots__ = ("_portal", "handle")

    def __init__(self, portal: Portal, handle: Handle[R_co]) -> None:
        self._portal = portal
        self.handle = handle
        """The same handle for asynchronous code."""

    @property
    def id(self) -> int:
        """The ID of the job. Any process that shares the store can create a handle of it."""
        return self.handle.id

    @property
    def created(self) -> bool:
        """False if the enqueue that returned this handle created no job, because this one already had its key."""
        return self.handle.created

    def result(self, *, wait: Wait = _DEFAULT_WAIT) -> R_co:
        """What the handler returned, once the job is done; see :meth:`Handle.result` for the errors.

        Inside a plain-function handler it occupies a thread of the worker while it waits.
        """
        handle = self.handle
        return self._portal.run(
            lambda: handle.result(wait=wait), "handle.result()", instead="await handle.result(…)", waits=True
        )

    def status(self) -> JobStatus:
        """The status of the job; raises :class:`NotFoundError` once it is no longer kept."""
        return self._portal.run(self.handle.status, "handle.status()", instead="await handle.status()")

    def progress(self) -> Progress | None:
        """How far the job has come, as its handler last reported; None if it has reported nothing."""
        return self._portal.run(self.handle.progress, "handle.progress()", instead="await handle.progress()")

    def logs(self, *, after: int = 0, follow: bool = False) -> Iterator[LogLine]:
        """The lines of the job's log; see :meth:`Jobs.logs`."""
        lines = self.handle.logs(after=after, follow=follow)

        async def following() -> LogLine | None:
            return await anext(lines, None)

        while (line := self._portal.run(following, "handle.logs()", waits=follow)) is not None:
            yield line

    def __repr__(self) -> str:
        return f"<SyncHandle of job {self.id}>"


class SyncJobs:
    """Durable units of work, for synchronous code; see :class:`Jobs`. ``job.enqueue_sync(…)`` enqueues one."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._portal = jobs.portal

    @overload
    def enqueue(self, call: Call[R], /) -> SyncHandle[R]: ...

    @overload
    def enqueue(self, name: str, /, **arguments: Any) -> SyncHandle[Any]: ...

    def enqueue(self, call: Call[R] | str, /, **arguments: Any) -> SyncHandle[Any]:
        """Enqueue one job by its name, or a call: ``app.sync.jobs.enqueue("report", account="a1")``."""
        made = self._jobs.call_of(call, arguments)
        handle: Handle[Any]
        if made.job.connection is not None:
            (handle,) = self._jobs.enqueue_on(made.job.connection, [made])
        else:
            handle = self._portal.run(
                lambda: self._jobs.enqueue_call(made), "jobs.enqueue()", instead="await app.jobs.enqueue(…)"
            )
        return SyncHandle(self._portal, handle)

    @overload
    def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2]], /, *, connection: Connection | None = None
    ) -> tuple[SyncHandle[R1], SyncHandle[R2]]: ...

    @overload
    def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3]], /, *, connection: Connection | None = None
    ) -> tuple[SyncHandle[R1], SyncHandle[R2], SyncHandle[R3]]: ...

    @overload
    def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4]], /, *, connection: Connection | None = None
    ) -> tuple[SyncHandle[R1], SyncHandle[R2], SyncHandle[R3], SyncHandle[R4]]: ...

    @overload
    def enqueue_many(  # type: ignore[overload-overlap]
        self, calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4], Call[R5]], /, *, connection: Connection | None = None
    ) -> tuple[SyncHandle[R1], SyncHandle[R2], SyncHandle[R3], SyncHandle[R4], SyncHandle[R5]]: ...

    @overload
    def enqueue_many(  # type: ignore[overload-overlap]
        self,
        calls: tuple[Call[R1], Call[R2], Call[R3], Call[R4], Call[R5], Call[R6]],
        /,
        *,
        connection: Connection | None = None,
    ) -> tuple[SyncHandle[R1], SyncHandle[R2], SyncHandle[R3], SyncHandle[R4], SyncHandle[R5], SyncHandle[R6]]: ...

    @overload
    def enqueue_many(
        self, calls: Iterable[Call[R]], /, *, connection: Connection | None = None
    ) -> builtins.list[SyncHandle[R]]: ...

    def enqueue_many(self, calls: Iterable[Call[Any]], /, *, connection: Connection | None = None) -> Any:
        """Enqueue several jobs, all or none, in this order. Returns a handle of each; see :meth:`Jobs.enqueue_many`."""
        given = [*calls]
        handles: builtins.list[Handle[Any]]
        if connection is not None:
            handles = self._jobs.enqueue_on(connection, given)
        else:
            handles = self._portal.run(
                lambda: self._jobs.enqueue_many(given), "jobs.enqueue_many()", instead="await app.jobs.enqueue_many(…)"
            )
        made = [SyncHandle(self._portal, handle) for handle in handles]
        return tuple(made) if isinstance(calls, tuple) else made

    def handle(self, job: int) -> SyncHandle[Any]:
        """A handle of a job by its ID; any process may have enqueued it."""
        return SyncHandle(self._portal, self._jobs.handle(job))

    def get(self, job: int | SyncHandle[Any]) -> JobView:
        """One job with its arguments, result and attempts; raises ``NotFoundError`` if it is unknown or not kept."""
        return self._portal.run(lambda: self._jobs.get(_id(job)), "jobs.get()", instead="await app.jobs.get(…)")

    def list(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", limit: int = 100
    ) -> Sequence[JobView]:
        """Jobs as one snapshot, the newest (largest) ID first, without arguments, results and attempts."""
        return self._portal.run(
            lambda: self._jobs.list(*states, name=name, queue=queue, lane=lane, limit=limit), "jobs.list()"
        )

    def explain(self, job: int | SyncHandle[Any]) -> Explanation[Reason]:
        """Why a job waits, where it is running or how it ended, and what to do about it."""
        return self._portal.run(lambda: self._jobs.explain(_id(job)), "jobs.explain()")

    def cancel(self, job: int | SyncHandle[Any], *, reason: str, by: str) -> JobState:
        """End a job, or ask the worker that has fetched it to stop it; returns its state. See :meth:`Jobs.cancel`."""
        return self._portal.run(lambda: self._jobs.cancel(_id(job), reason=reason, by=by), "jobs.cancel()")

    def retry(self, job: int | SyncHandle[Any], *, by: str, reason: str = "") -> JobState:
        """Make a job ready now that is scheduled, parked, or ended without success; returns its state."""
        return self._portal.run(lambda: self._jobs.retry(_id(job), by=by, reason=reason), "jobs.retry()")

    def cancel_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str
    ) -> BulkResult[int]:
        """Cancel every job in one of these states that matches, the oldest first."""
        return self._portal.run(
            lambda: self._jobs.cancel_all(*states, name=name, queue=queue, lane=lane, by=by, reason=reason),
            "jobs.cancel_all()",
        )

    def retry_all(
        self, *states: JobState, name: str = "", queue: str = "", lane: str = "", by: str, reason: str = ""
    ) -> BulkResult[int]:
        """Retry every job in one of these states that matches, the oldest first."""
        return self._portal.run(
            lambda: self._jobs.retry_all(*states, name=name, queue=queue, lane=lane, by=by, reason=reason),
            "jobs.retry_all()",
        )

    def matching(self, *states: JobState, name: str = "", queue: str = "", lane: str = "") -> builtins.list[int]:
        """The IDs of all jobs that match, the oldest first."""
        return self._portal.run(
            lambda: self._jobs.matching(*states, name=name, queue=queue, lane=lane), "jobs.matching()"
        )


def _id(job: int | SyncHandle[Any]) -> int:
    return job.id if isinstance(job, SyncHandle) else job
