"""A store on a virtual clock, with enqueueing, fetching and acknowledging made short: what the port's suites work
at."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from interlock.jobs.listing import list_jobs, list_lanes
from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, QueueView
from interlock.ports.jobs import (
    Acknowledged,
    Acknowledgement,
    FetchedJob,
    FetchRequest,
    FetchResult,
    HandlerVersion,
    JobState,
    NewJob,
    OnFailure,
    Outcome,
    Rescued,
)
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.driver import SESSION, Driver, DriverSuite
from interlock.testing.conformance.limits.driver import pace, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from interlock.ports.store import Store

__all__ = ["SESSION", "JobDriver", "JobSuite", "near", "new_job", "pace", "slots"]

_USUAL: dict[str, Any] = {
    "name": "n",
    "queue": "q",
    "lane": "",
    "priority": 50,
    "delay": 0.0,
    "at": None,
    "uses": (),
    "on_failure": OnFailure.BLOCK,
    "coalesce": False,
    "keep_result": 3600.0,
    "arguments": "{}",
    "options": "{}",
}


def new_job(job_id: int, **changes: Any) -> NewJob:
    """A job named ``n`` in queue ``q``, without a lane and limits unless told otherwise."""
    values = _USUAL | changes
    return NewJob(job_id, **(values | {"uses": tuple(sorted(values["uses"]))}))


def near(seconds: float, within: float = 1e-5) -> object:
    """The same time, give or take what a float cannot hold."""
    return pytest.approx(seconds, abs=within, rel=0)


class JobDriver(Driver):
    """Sessions ``a``, ``b`` and ``c`` fetch jobs named ``n`` from queue ``q`` unless told otherwise."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.jobs = store.jobs
        self._fetchers: dict[tuple[int, int], str] = {}

    @property
    def now(self) -> float:
        """The clock's time."""
        return self.clock.now()

    async def add(self, **changes: Any) -> int:
        """Accept one job, a millisecond after what was before, so that times tell the order."""
        self.clock.advance(0.001)
        (job_id,) = await self.add_many(1, **changes)
        return job_id

    async def add_many(self, count: int, **changes: Any) -> list[int]:
        """Accept so many like it in one call."""
        ids = await self.jobs.ids(count)
        await self.jobs.enqueue([new_job(job_id, **changes) for job_id in ids])
        return list(ids)

    async def batch(
        self,
        session: str = "a",
        limit: int = 100,
        *,
        at_once: int | None = None,
        run: int = 1,
        queues: Sequence[str] = ("q",),
        names: Sequence[str] = ("n",),
        fetch_number: int = 0,
        start_within: float = 0.0,
        reads: Sequence[HandlerVersion] = (),
        lanes: Sequence[str] = (),
    ) -> FetchResult:
        """Fetch; what is fetched may start at once unless told otherwise. A fetch that was cut short is repeated."""
        at_once = limit if at_once is None else at_once
        request = FetchRequest(
            session,
            tuple(queues),
            tuple(names),
            limit,
            at_once,
            run,
            fetch_number,
            start_within,
            tuple(reads),
            tuple(lanes),
        )
        for _ in range(1000):
            batch = await self.jobs.fetch(request)
            assert isinstance(batch, FetchResult), batch
            assert len(batch.jobs) <= limit
            for job in batch.jobs:
                self._fetchers[job.id, job.fence] = session
            if batch.jobs or batch.recheck_in > 0:
                return batch
        raise AssertionError("the fetch is cut short for ever")

    async def fetch(self, session: str = "a", limit: int = 100, **wishes: Any) -> list[FetchedJob]:
        """The jobs of one fetch."""
        return list((await self.batch(session, limit, **wishes)).jobs)

    async def ids(self, session: str = "a", limit: int = 100, **wishes: Any) -> list[int]:
        """The ids of the jobs of one fetch."""
        return [job.id for job in await self.fetch(session, limit, **wishes)]

    async def one(self, session: str = "a", **wishes: Any) -> FetchedJob:
        """Fetch a single job, which is there."""
        jobs = await self.fetch(session, 1, **wishes)
        assert len(jobs) == 1, "there was nothing to fetch"
        return jobs[0]

    async def every(self, session: str = "a", **wishes: Any) -> list[FetchedJob]:
        """Fetch until there is nothing left to fetch."""
        found: list[FetchedJob] = []
        while jobs := await self.fetch(session, **wishes):
            found += jobs
        return found

    async def started(self, *jobs: FetchedJob) -> None:
        """Report that fetched jobs have started, each from the session that has it."""
        for job in jobs:
            await self.jobs.report_started(self._fetchers[job.id, job.fence], [(job.id, job.fence)])

    async def acknowledge(self, job: FetchedJob, outcome: Outcome = Outcome.DONE, **changes: Any) -> bool:
        """End one fetch; whether it was accepted."""
        (accepted,) = (await self.acknowledged(Acknowledgement(job.id, job.fence, outcome, **changes))).accepted
        return accepted

    async def acknowledged(self, *acknowledgements: Acknowledgement) -> Acknowledged:
        """End several fetches of one session in one step."""
        (session,) = {self._fetchers[ended.id, ended.fence] for ended in acknowledgements}
        return await self.jobs.acknowledge(session, acknowledgements)

    async def done(self, *jobs: FetchedJob) -> Acknowledged:
        """End fetches of one session as done, which is accepted."""
        acknowledged = await self.acknowledged(*(Acknowledgement(job.id, job.fence, Outcome.DONE) for job in jobs))
        assert all(acknowledged.accepted)
        assert len(acknowledged.accepted) == len(jobs)
        return acknowledged

    async def end(self, job: FetchedJob, outcome: Outcome, **changes: Any) -> None:
        """End one fetch, which is accepted."""
        assert await self.acknowledge(job, outcome, **changes)

    async def crash(self, session: str) -> list[Rescued]:
        """The session ends, and what it had is rescued. Another of the same name cannot begin."""
        await self.store.sessions.end(session)
        return list(await self.jobs.rescue())

    async def crashed(self, job_id: int, times: int = 1) -> None:
        """Let a job that is next to be fetched crash so many times."""
        for _ in range(times):
            session = f"victim-{self.clock.monotonic()}"
            self.clock.advance(0.001)
            await self.begin(session)
            (job,) = await self.fetch(session, 1)
            assert job.id == job_id
            await self.crash(session)

    async def view(self, job_id: int) -> JobView:
        """The job, which is known."""
        view = await self.store.insight.get(job_id)
        assert view is not None, f"job {id} is not known"
        return view

    async def state(self, job_id: int) -> JobState:
        """How the job stands."""
        return (await self.view(job_id)).state

    async def states(self, *ids: int) -> list[JobState]:
        """How the jobs stand, as one look shows them."""
        seen = {view.id: view.state for view in await self.list_jobs(JobFilter(), limit=10_000)}
        return [seen[job_id] for job_id in ids]

    async def situation(self, job_id: int) -> JobSituation:
        """The situation of a known job."""
        (situation,) = await self.store.insight.situations([job_id])
        return situation._replace(job=await self.view(job_id))

    async def list_jobs(self, wanted: JobFilter, *, limit: int = 100) -> list[JobView]:
        """Jobs that match, newest first."""
        return await list_jobs(self.store.insight, wanted, limit)

    async def lane(self, lane: str = "l") -> LaneView:
        """The lane, which is not empty or is held."""
        view = await self.store.insight.lane(lane)
        assert view is not None, f"lane {lane!r} is not known"
        assert view.lane == lane
        return view

    async def lanes(self, *, limit: int = 100) -> list[LaneView]:
        """All lanes."""
        return await list_lanes(self.store.insight, limit)

    async def queue(self, queue: str = "q") -> QueueView:
        """The queue, which is known."""
        return {view.queue: view for view in await self.queues()}[queue]

    async def queues(self) -> list[QueueView]:
        """All queues."""
        return list((await self.store.insight.counts()).queues)

    async def let_pass(self, seconds: float, *alive: str) -> None:
        """Let time pass, with these sessions alive to the end; all three unless told otherwise."""
        sessions = alive or "abc"
        await self.keep(*sessions, seconds=seconds + SESSION)
        self.clock.advance(seconds)
        await self.keep(*sessions)


class JobSuite(DriverSuite):
    """Tests that work at such a driver, or at several that share a store."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS,)

    @asynccontextmanager
    async def job_driver(
        self, url: str, clock: VirtualClock | None = None, **settings: Any
    ) -> AsyncIterator[JobDriver]:
        """A fresh driver on the store."""
        async with self.driver(url, clock, **({"namespace": self.namespace} | settings)) as driver:
            yield JobDriver(driver.store, driver.clock)

    @asynccontextmanager
    async def job_drivers(self, url: str, count: int) -> AsyncIterator[list[JobDriver]]:
        """Drivers that reach one store each in its own way, as processes do, with a common clock."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.job_driver(url, clock)) for _ in range(count)]
