"""The jobs of one process in one store: what enqueuing, waiting and workers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.errors import MisuseError, StoreUnavailableError
from interlock.jobs.definition import fingerprint
from interlock.jobs.ends import Ends
from interlock.jobs.ids import Ids
from interlock.jobs.job import Lot
from interlock.ports.jobs import HandlerVersion
from interlock.ports.store import Capability
from interlock.store_client import repeat
from interlock.telemetry.jobs import JobMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock.jobs.definition import Definition
    from interlock.jobs.job import Call
    from interlock.jobs.worker.coordinator import Desk
    from interlock.ports.jobs import NewJob
    from interlock.sessions import Session
    from interlock.store_client import StoreClient

    class AtWork(Protocol):
        """A worker, as the engine knows it."""

        def session_began(self, session: Session) -> None:
            """There is a session; the first, or the one that follows a lost one."""
            ...

        def session_lost(self, session: Session) -> None:
            """The session is lost, and all that was fetched in it."""
            ...

        def taken(self, job: int, fence: int, why: str, /) -> None:
            """Somebody held the lane of a job under this fetch, or cancelled it; ``why`` begins with which of them."""
            ...

        def missed(self) -> None:
            """Anything may have happened unheard."""
            ...

        @property
        def working(self) -> bool:
            """Whether it has not been told to end."""
            ...

        async def close(self) -> None:
            """Give everything back."""
            ...


__all__ = ["JobEngine"]

T = TypeVar("T")


class JobEngine:
    """A part of the process's store_client. Lives from opening to closing."""

    mark = "j"

    def __init__(self, store_client: StoreClient, definitions: dict[str, Definition]) -> None:
        self.store_client = store_client
        self.jobs = store_client.store.jobs
        self.events = store_client.store.events if Capability.EVENTS in store_client.store.capabilities else None
        """What is pruned along with the jobs that it caused."""
        self.settings = store_client.settings
        self.clock = store_client.clock
        self.monotonic = store_client.clock.monotonic
        self.definitions = definitions
        """By name; grows while the app defines jobs."""
        self.metrics = JobMetrics(store_client.store.name, store_client.settings.metrics_prefix)
        self.workers: list[AtWork] = []
        """A worker is here from its opening to its closing."""
        self.desk: Desk | None = None
        """What its workers share."""
        self.ends = Ends(store_client, self.jobs, self.look_out)
        self.awaited: dict[int, list[int]] = {}
        """For jobs that run here: whose ends their handlers wait for."""
        self._ids = Ids(self._new_ids, self.monotonic)
        self._looking_out = 0
        self._reads: tuple[HandlerVersion, ...] = ()
        self._closed = False

    @property
    def session(self) -> Session:
        """The newest session; it may be lost while the next one is still to begin."""
        return self.store_client.session

    async def open(self) -> None:
        """Begin a session, or share the one that other concepts have; from here on messages arrive."""
        await self.store_client.open(self)

    async def close(self) -> None:
        """Close the workers. Whoever still waits is told."""
        self._closed = True
        try:
            for worker in list(self.workers):
                await worker.close()
            if self.desk is not None:
                await self.desk.close()
        finally:
            self.ends.call_all()
            await self.store_client.close(self)

    def reads_of(self, definition: Definition, name: str) -> HandlerVersion:
        """What the handler of a job can read, in the version of this program."""
        version = self.settings.version
        return HandlerVersion(name, fingerprint(definition.schema, version), version or "unnamed")

    def reads(self) -> tuple[HandlerVersion, ...]:
        """What the handlers of all jobs can read."""
        if len(self._reads) != len(self.definitions):
            self._reads = tuple(self.reads_of(definition, name) for name, definition in self.definitions.items())
        return self._reads

    def leave(self) -> None:
        """Have the store note that this process was told to end, unless some of its workers were not.

        May be called from any thread.
        """
        if not any(worker.working for worker in list(self.workers)):
            self.store_client.keeper.leave()

    def stay(self) -> None:
        """Another worker begins: this process goes on."""
        self.store_client.keeper.leave(leaving=False)

    def ensure_open(self) -> None:
        """Refuse to go on after closing."""
        if self._closed:
            raise MisuseError("These jobs were closed.", remedy="Open them again.")

    async def repeat(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Do something that may be repeated without harm, for as long as a caller would wait for the store."""
        self.ensure_open()
        return await repeat(operation, self.settings.store_wait, self.monotonic)

    def look_out(self, by: int) -> None:
        """One more (1) or one fewer (-1) waits for messages, for stores that must look out while somebody does."""
        before, self._looking_out = self._looking_out, self._looking_out + by
        if bool(before) != bool(self._looking_out):
            self.store_client.watch(self, waiting=bool(self._looking_out))

    # -- enqueuing ---------------------------------------------------------------------------------------------------

    async def enqueue(self, calls: Sequence[Call[Any]]) -> list[int]:
        """Have jobs accepted, all or none; their ids in order."""
        ids = await self.take_ids(len(calls))
        jobs = Lot(calls, ids)
        begun = self.monotonic()
        try:
            await self.jobs.enqueue(jobs)
        except StoreUnavailableError:
            await self._enqueue_again(jobs, begun)
        for call in calls:
            self.metrics.of(call.job.name).enqueued += 1
        return ids

    async def take_ids(self, count: int) -> list[int]:
        """So many numbers for jobs, and for what else is numbered with them."""
        self.ensure_open()
        return await self._ids.take(count)

    async def _enqueue_again(self, jobs: Sequence[NewJob], begun: float) -> None:
        """Repeat a call whose outcome is not known; the store leaves alone what it has accepted before."""
        try:
            await repeat(
                lambda: self.jobs.enqueue(jobs, again=True), self.settings.store_wait, self.monotonic, since=begun
            )
        except StoreUnavailableError as error:
            numbers = f"job {jobs[0].id}" if len(jobs) == 1 else f"jobs {jobs[0].id} to {jobs[-1].id}"
            raise StoreUnavailableError(
                f"The store did not say whether it accepted {numbers}: {error.message}",
                remedy=f"See: interlock jobs show {jobs[0].id}; or enqueue again where twice is harmless.",
            ) from error

    async def _new_ids(self, count: int) -> range:
        return await self.repeat(lambda: self.jobs.ids(count))

    # -- a part of the process's store_client ----------------------------------------------------------------------

    def session_began(self, session: Session) -> None:
        """Messages go to this session from now on."""
        self.ends.ask_again()
        for worker in list(self.workers):
            worker.session_began(session)

    def session_lost(self, session: Session) -> None:
        """What was fetched in it may be given to others soon."""
        for worker in list(self.workers):
            worker.session_lost(session)

    def turn(self, owner: str | None) -> None:
        """A job that somebody here waits for has ended; None: anything may have happened."""
        if owner is not None:
            self.ends.call(_number(owner))
            return
        self.ends.ask_again()
        for worker in list(self.workers):
            worker.missed()

    def taken(self, owner: str, why: str) -> None:
        """Somebody held the lane of a job fetched here, or cancelled it."""
        for worker in list(self.workers):
            worker.taken(_number(owner), _fence(owner), why)


def _number(owner: str) -> int:
    """The job that an owner stands for: ``{session}.j{id}``, or ``{session}.{fence}.j{id}`` for a fetch of it."""
    return int(owner.rpartition(".j")[2])


def _fence(owner: str) -> int:
    """The fetch that an owner stands for."""
    return int(owner.split(".")[-2])
