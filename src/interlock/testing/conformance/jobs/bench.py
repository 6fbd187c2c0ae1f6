"""A store on a virtual clock, with enqueueing, claiming and settling made short: what the port's suites work at."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from interlock.ports.job_views import JobFilter, JobView, LaneView, Outlook, QueueView
from interlock.ports.jobs import (
    Appetite,
    Batch,
    ClaimedJob,
    Failing,
    JobState,
    NewJob,
    Outcome,
    Reads,
    Rescued,
    Settled,
    Settlement,
)
from interlock.ports.store import Capability
from interlock.testing.clock import VirtualClock
from interlock.testing.conformance.bench import SESSION, Bench, BenchSuite
from interlock.testing.conformance.limits.bench import pace, slots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from interlock.ports.store import Store

__all__ = ["SESSION", "JobBench", "JobSuite", "near", "new_job", "pace", "slots"]

_USUAL: dict[str, Any] = {
    "name": "n",
    "queue": "q",
    "lane": "",
    "priority": 50,
    "delay": 0.0,
    "at": None,
    "uses": (),
    "failing": Failing.BLOCK,
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


class JobBench(Bench):
    """Sessions ``a``, ``b`` and ``c`` claim jobs named ``n`` from queue ``q`` unless told otherwise."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        super().__init__(store, clock)
        self.jobs = store.jobs
        self._claimers: dict[tuple[int, int], str] = {}

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
        most: int = 100,
        *,
        at_once: int | None = None,
        run: int = 1,
        queues: Sequence[str] = ("q",),
        names: Sequence[str] = ("n",),
        turn: int = 0,
        start_within: float = 0.0,
        reads: Sequence[Reads] = (),
    ) -> Batch:
        """Claim; what is claimed may start at once unless told otherwise. A claim that was cut short is repeated."""
        at_once = most if at_once is None else at_once
        appetite = Appetite(session, tuple(queues), tuple(names), most, at_once, run, turn, start_within, tuple(reads))
        for _ in range(1000):
            batch = await self.jobs.claim(appetite)
            assert isinstance(batch, Batch), batch
            assert len(batch.jobs) <= most
            for job in batch.jobs:
                self._claimers[job.id, job.fence] = session
            if batch.jobs or batch.look_again > 0:
                return batch
        raise AssertionError("the claim is cut short for ever")

    async def claim(self, session: str = "a", most: int = 100, **wishes: Any) -> list[ClaimedJob]:
        """The jobs of one claim."""
        return list((await self.batch(session, most, **wishes)).jobs)

    async def ids(self, session: str = "a", most: int = 100, **wishes: Any) -> list[int]:
        """The ids of the jobs of one claim."""
        return [job.id for job in await self.claim(session, most, **wishes)]

    async def one(self, session: str = "a", **wishes: Any) -> ClaimedJob:
        """Claim a single job, which is there."""
        jobs = await self.claim(session, 1, **wishes)
        assert len(jobs) == 1, "there was nothing to claim"
        return jobs[0]

    async def every(self, session: str = "a", **wishes: Any) -> list[ClaimedJob]:
        """Claim until there is nothing left to claim."""
        found: list[ClaimedJob] = []
        while jobs := await self.claim(session, **wishes):
            found += jobs
        return found

    async def settle(self, job: ClaimedJob, outcome: Outcome = Outcome.DONE, **changes: Any) -> bool:
        """End one claim; whether it was accepted."""
        (accepted,) = (await self.settled(Settlement(job.id, job.fence, outcome, **changes))).accepted
        return accepted

    async def settled(self, *settlements: Settlement) -> Settled:
        """End several claims of one session in one step."""
        (session,) = {self._claimers[ended.id, ended.fence] for ended in settlements}
        return await self.jobs.settle(session, settlements)

    async def done(self, *jobs: ClaimedJob) -> Settled:
        """End claims of one session as done, which is accepted."""
        settled = await self.settled(*(Settlement(job.id, job.fence, Outcome.DONE) for job in jobs))
        assert all(settled.accepted)
        assert len(settled.accepted) == len(jobs)
        return settled

    async def end(self, job: ClaimedJob, outcome: Outcome, **changes: Any) -> None:
        """End one claim, which is accepted."""
        assert await self.settle(job, outcome, **changes)

    async def crash(self, session: str) -> list[Rescued]:
        """The session ends, and what it had is rescued. Another of the same name cannot begin."""
        await self.store.sessions.end(session)
        return list(await self.jobs.rescue())

    async def crashed(self, job_id: int, times: int = 1) -> None:
        """Let a job that is next to be claimed crash so many times."""
        for _ in range(times):
            session = f"victim-{self.clock.monotonic()}"
            self.clock.advance(0.001)
            await self.begin(session)
            (job,) = await self.claim(session, 1)
            assert job.id == job_id
            await self.crash(session)

    async def view(self, job_id: int) -> JobView:
        """The job, which is known."""
        view = await self.jobs.find(job_id)
        assert view is not None, f"job {id} is not known"
        return view

    async def state(self, job_id: int) -> JobState:
        """How the job stands."""
        return (await self.view(job_id)).state

    async def states(self, *ids: int) -> list[JobState]:
        """How the jobs stand, as one look shows them."""
        seen = {view.id: view.state for view in await self.jobs.look(JobFilter(), limit=10_000)}
        return [seen[job_id] for job_id in ids]

    async def outlook(self, job_id: int) -> Outlook:
        """What decides when the job will run; it is known."""
        outlook = await self.jobs.outlook(job_id)
        assert outlook is not None, f"job {id} is not known"
        return outlook

    async def lane(self, lane: str = "l") -> LaneView:
        """The lane, which is not empty or is held."""
        (view,) = await self.jobs.lanes(lane)
        assert view.lane == lane
        return view

    async def queue(self, queue: str = "q") -> QueueView:
        """The queue, which is known."""
        return {view.queue: view for view in await self.jobs.queues()}[queue]

    async def let_pass(self, seconds: float, *alive: str) -> None:
        """Let time pass, with these sessions alive to the end; all three unless told otherwise."""
        sessions = alive or "abc"
        await self.keep(*sessions, seconds=seconds + SESSION)
        self.clock.advance(seconds)
        await self.keep(*sessions)


class JobSuite(BenchSuite):
    """Tests that work at such a bench, or at several that share a store."""

    needed_capabilities: ClassVar[tuple[Capability, ...]] = (Capability.JOBS,)

    @asynccontextmanager
    async def job_bench(self, url: str, clock: VirtualClock | None = None, **settings: Any) -> AsyncIterator[JobBench]:
        """A fresh bench on the store."""
        async with self.bench(url, clock, **({"namespace": self.namespace} | settings)) as bench:
            yield JobBench(bench.store, bench.clock)

    @asynccontextmanager
    async def job_benches(self, url: str, count: int) -> AsyncIterator[list[JobBench]]:
        """Benches that reach one store each in its own way, as processes do, with a common clock."""
        clock = VirtualClock()
        async with AsyncExitStack() as stack:
            yield [await stack.enter_async_context(self.job_bench(url, clock)) for _ in range(count)]
