"""The jobs of one process in one store: what enqueuing, waiting and workers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from interlock.errors import MisuseError, StoreUnavailableError
from interlock.jobs.current import cause_here
from interlock.jobs.definition import fingerprint
from interlock.jobs.end_watcher import EndWatcher
from interlock.jobs.ids import Ids
from interlock.jobs.job import NewJobs
from interlock.jobs.log_buffer import LogBuffers
from interlock.jobs.resources import Resources
from interlock.ports.jobs import HandlerVersion
from interlock.ports.store import Capability
from interlock.store_client import repeat
from interlock.telemetry.jobs import JobMetrics
from interlock.telemetry.journal import JournalMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from interlock.jobs.definition import Definition
    from interlock.jobs.job import Call
    from interlock.jobs.jobs import Middleware
    from interlock.jobs.worker.chore import Health
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.ports.jobs import NewJob
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

    class OpenWorker(Protocol):
        """A worker, as far as the engine needs it."""

        @property
        def is_working(self) -> bool:
            """Whether it was not told to end."""
            ...

        async def stop(self) -> None:
            """Return everything."""
            ...

    class SessionListener(Protocol):
        """The fetcher of a worker: hears about sessions and fetched jobs."""

        def session_began(self, session: Session) -> None:
            """Hear of the first session, or of the one that follows a lost one."""
            ...

        def session_lost(self, session: Session) -> None:
            """Hear that the session is lost, with all jobs fetched under it."""
            ...

        def revoked(self, job: int, fence: int, cause: str) -> None:
            """Hear that the lane of a fetched job was held, or the job cancelled; ``cause`` begins with which."""
            ...

        def messages_missed(self) -> None:
            """Hear that messages may have been lost."""
            ...


__all__ = ["Enqueued", "JobEngine"]

T = TypeVar("T")


class Enqueued(NamedTuple):
    """The answer to an enqueue."""

    ids: Sequence[int]
    """The IDs of the calls, in order."""
    existing: Mapping[int, int]
    """For those of them that were not accepted: the job that has their key."""


class JobEngine:
    """One of the components that share the process's session. Lives from opening to closing."""

    owner_tag = "j"

    def __init__(self, store_client: StoreClient, definitions: dict[str, Definition]) -> None:
        self.store_client = store_client
        self.jobs = store_client.store.jobs
        self.insight = store_client.store.insight
        """The read side of the jobs."""
        self.events = store_client.store.events if Capability.EVENTS in store_client.store.capabilities else None
        """Pruned along with the jobs that the events caused."""
        self.pipelines = store_client.store.pipelines if Capability.RECORDS in store_client.store.capabilities else None
        """Pruned like the history of jobs."""
        self.journal = store_client.store.journal if Capability.JOURNAL in store_client.store.capabilities else None
        """Sealed and pruned by the workers."""
        self.settings = store_client.settings
        self.clock = store_client.clock
        self.monotonic = store_client.clock.monotonic
        self.definitions = definitions
        """By name; grows while the app defines jobs."""
        self.metrics = JobMetrics(store_client.store.name, store_client.settings.metrics_prefix)
        self.journal_metrics = JournalMetrics(store_client.store.name, store_client.settings.metrics_prefix)
        self.logs = LogBuffers(self.settings, self.clock, self.metrics, definitions)
        """What the jobs that run here have reported."""
        self.workers: list[OpenWorker] = []
        """The open workers."""
        self.direct_workers: dict[str, OpenWorker] = {}
        """The open workers that run what callers in this process ask for, by queue."""
        self.direct_names: set[str] = set()
        """The jobs that callers may run directly."""
        self.fetchers: list[SessionListener] = []
        """The fetchers of the open workers."""
        self.chores: list[Callable[[Health], Coroutine[Any, Any, None]]] = []
        """Background work of other concepts, for as long as the process has a worker."""
        self.before_drain: list[Callable[[], Awaitable[object]]] = []
        """What a drain does first, so that it finds all jobs that are due."""
        self.coordinator: Coordinator | None = None
        """What the workers share."""
        self.end_watcher = EndWatcher(store_client, self.jobs, self.watch_messages)
        self.awaited: dict[int, list[int]] = {}
        """For each job that runs here, the jobs whose ends its handler waits for."""
        self._ids = Ids(self._new_ids, self.monotonic)
        self._watchers = 0
        self._versions: tuple[HandlerVersion, ...] = ()
        self._closed = False
        self.middleware: list[Middleware] = []
        """What runs around each handler, the outermost first."""
        self.resources = Resources()
        self.service: object = None
        """The ``Jobs`` that opened it."""

    @property
    def session(self) -> Session:
        """The newest session; it may be lost while the next one has not begun yet."""
        return self.store_client.session

    async def open(self) -> None:
        """Begin a session, or share that of other concepts. From here on messages arrive."""
        await self.store_client.open(self)

    async def close(self) -> None:
        """Stop the workers, and wake the callers that wait for a job."""
        self._closed = True
        try:
            await self.stop_workers()
            if self.coordinator is not None:
                await self.coordinator.close()
        finally:
            self.end_watcher.wake_all()
            await self.store_client.close(self)

    def in_use(self) -> bool:
        """Whether a worker is open."""
        return bool(self.workers or self.direct_workers)

    def forget(self) -> None:
        """Become closed in a process that was just forked."""
        self._closed = True

    def version_of(self, definition: Definition, name: str) -> HandlerVersion:
        """The version of one handler in this program."""
        version = self.settings.version
        return HandlerVersion(name, fingerprint(definition.schema, version), version or "unnamed")

    def versions(self) -> tuple[HandlerVersion, ...]:
        """The versions of all handlers in this program."""
        if len(self._versions) != len(self.definitions):
            self._versions = tuple(self.version_of(definition, name) for name, definition in self.definitions.items())
        return self._versions

    def leave(self) -> None:
        """Have the store record that this process was told to end, unless some of its workers were not. Thread-safe."""
        if not any(worker.is_working for worker in list(self.workers)):
            self.store_client.keeper.leave()

    def stay(self) -> None:
        """Have the store record that this process goes on: another worker begins."""
        self.store_client.keeper.leave(leaving=False)

    def ensure_open(self) -> None:
        """Raise an error after closing."""
        if self._closed:
            raise MisuseError("These jobs were closed.", remedy="Open them again.")

    async def repeat(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do something that may be repeated without harm, for as long as a caller would wait for the store."""
        self.ensure_open()
        return await repeat(operation, self.settings.store_wait, self.monotonic)

    async def stop_workers(self) -> None:
        """Stop the workers that are still open."""
        for worker in [*self.workers, *self.direct_workers.values()]:
            await worker.stop()

    def watch_messages(self, by: int) -> None:
        """Count one caller more (1) or less (-1) that needs messages, for stores that poll only while one does."""
        before, self._watchers = self._watchers, self._watchers + by
        if bool(before) != bool(self._watchers):
            self.store_client.watch(self, waiting=bool(self._watchers))

    # -- enqueuing ---------------------------------------------------------------------------------------------------

    async def enqueue(self, calls: Sequence[Call[Any]]) -> list[int]:
        """Enqueue jobs, all or none; returns in order the IDs of the jobs, or of those that have their keys."""
        ids, existing = await self.accept(calls)
        return [existing.get(job_id, job_id) for job_id in ids]

    async def accept(self, calls: Sequence[Call[Any]]) -> Enqueued:
        """Enqueue jobs, all or none; returns also which of them were not accepted because of their keys."""
        ids = await self.take_ids(len(calls))
        jobs = NewJobs(calls, ids, cause_here())
        started = self.monotonic()
        try:
            existing = await self.jobs.enqueue(jobs)
        except StoreUnavailableError:
            existing = await self._enqueue_again(jobs, started)
        for call, job_id in zip(calls, ids, strict=True):
            tally = self.metrics.of(call.job.name)
            if job_id in existing:
                tally.existing += 1
            else:
                tally.enqueued += 1
        return Enqueued(ids, existing)

    async def take_ids(self, count: int) -> list[int]:
        """Take this many IDs for jobs, and for events, which share their numbers."""
        self.ensure_open()
        return await self._ids.take(count)

    async def follow_up_ids(self, count: int) -> Sequence[int]:
        """Take IDs for the follow-ups of jobs that have ended, also while the engine closes."""
        return await self.jobs.ids(count) if self._closed else await self._ids.take(count)

    async def _enqueue_again(self, jobs: Sequence[NewJob], started: float) -> Mapping[int, int]:
        """Repeat a call whose outcome is unknown; the store skips jobs that it has accepted already."""
        try:
            return await repeat(
                lambda: self.jobs.enqueue(jobs, again=True), self.settings.store_wait, self.monotonic, since=started
            )
        except StoreUnavailableError as error:
            numbers = f"job {jobs[0].id}" if len(jobs) == 1 else f"jobs {jobs[0].id} to {jobs[-1].id}"
            raise StoreUnavailableError(
                f"The store did not confirm {numbers}: {error.message}",
                remedy=f"Check with: interlock jobs show {jobs[0].id}; or enqueue again if running twice is harmless.",
            ) from error

    async def _new_ids(self, count: int) -> range:
        return await self.repeat(lambda: self.jobs.ids(count))

    # -- a component of the process's session ------------------------------------------------------------------------

    def session_began(self, session: Session) -> None:
        """Fetch under this session from now on."""
        self.end_watcher.check_again()
        for fetcher in list(self.fetchers):
            fetcher.session_began(session)

    def session_lost(self, session: Session) -> None:
        """Drop the jobs fetched under the session: other workers may get them soon."""
        for fetcher in list(self.fetchers):
            fetcher.session_lost(session)

    def turn(self, owner: str | None) -> None:
        """Wake the callers that wait for a job that has ended; None: messages may have been lost."""
        if owner is not None:
            self.end_watcher.wake(_job_in(owner))
            return
        self.end_watcher.check_again()
        for fetcher in list(self.fetchers):
            fetcher.messages_missed()

    def taken(self, owner: str, why: str) -> None:
        """Tell the fetchers that the lane of a fetched job was held, or the job cancelled."""
        for fetcher in list(self.fetchers):
            fetcher.revoked(_job_in(owner), _fence_in(owner), why)


def _job_in(owner: str) -> int:
    """The job that an owner stands for: ``{session}.j{id}``, or ``{session}.{fence}.j{id}`` for one fetch of it."""
    return int(owner.rpartition(".j")[2])


def _fence_in(owner: str) -> int:
    """The fence of the fetch that an owner stands for."""
    return int(owner.split(".")[-2])
