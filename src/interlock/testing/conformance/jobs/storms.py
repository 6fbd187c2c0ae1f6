"""Everything at once: many who enqueue, fetch, acknowledge, die, cancel and hold through several ways to one store."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import new_job, slots
from interlock.testing.conformance.jobs.races import HandsSuite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import FetchedJob, NewJob
    from interlock.testing.conformance.jobs.driver import JobDriver

__all__ = ["StormConformance"]

_LANES = ("x", "y", "z")
_FIGURES = {"a": 1, "b": 2, "c": 4}
_JOBS = 160
_ENDS = (
    *[Outcome.DONE] * 6, Outcome.RETRY, Outcome.RETRY, Outcome.FAILED, Outcome.SNOOZED, Outcome.PARKED,
    Outcome.RETURNED, Outcome.RETURNED,
)  # fmt: skip


class _Storm:
    """The state that all participants share."""

    def __init__(self, hands: Sequence[JobDriver], seed: int) -> None:
        self.hands = hands
        self.chance = random.Random(seed)
        self.ids: list[int] = []
        self.at_work: dict[str, str] = {}
        self.taken: Counter[str] = Counter()
        self.fences: dict[int, int] = {}
        self.running: dict[int, str] = {}
        self.over = False
        self.begun = 0

    async def feed(self, hand: JobDriver) -> None:
        """Jobs of all kinds, a few at a time."""
        while len(self.ids) < _JOBS:
            ids = list(await hand.jobs.ids(self.chance.randint(1, 5)))
            await hand.jobs.enqueue([self._any_job(job_id) for job_id in ids])
            self.ids += ids
            hand.clock.advance(0.5)
            await asyncio.sleep(0)
        self.over = True

    def _any_job(self, job_id: int) -> NewJob:
        chance = self.chance
        keys = chance.sample(sorted(_FIGURES), chance.choice((0, 0, 1, 2)))
        return new_job(
            job_id,
            lane=chance.choice((*_LANES, "")),
            uses=tuple(slots(_FIGURES[key], key) for key in keys),
            delay=chance.choice((0.0, 0.0, 0.0, 2.0)),
            coalesce=not keys and chance.random() < 0.3,
            on_failure=chance.choice((OnFailure.BLOCK, OnFailure.SKIP, OnFailure.PARK)),
            priority=chance.choice((50, 50, 90)),
        )

    async def work(self, hand: JobDriver) -> None:
        """Fetch and acknowledge, die at random, until all has been fed."""
        while not self.over:
            session = await self._new_session(hand)
            for _ in range(12):
                await asyncio.sleep(0)
                wish = FetchRequest(
                    session, ("q",), ("n",), self.chance.choice((1, 3, 8)), 8, self.chance.choice((1, 4))
                )
                batch = await hand.jobs.fetch(wish)
                assert isinstance(batch, FetchResult)
                self._begin(session, batch.jobs)
                await asyncio.sleep(0)
                if self.chance.random() < 0.05:
                    break
                self._end(batch.jobs)
                await self._acknowledge(hand, session, batch.jobs)
            else:
                batch = FetchResult([], 0)
            self._end(batch.jobs)
            if self.chance.random() < 0.5:
                await hand.jobs.return_unstarted(session)
            await hand.store.sessions.end(session)
            await hand.jobs.rescue()

    async def _new_session(self, hand: JobDriver) -> str:
        self.begun += 1
        session = f"w{self.begun}"
        await hand.begin(session, seconds=1e6)
        return session

    def _begin(self, session: str, jobs: Sequence[FetchedJob]) -> None:
        for lane in {job.lane for job in jobs if job.lane}:
            assert lane not in self.at_work, f"lane {lane} is at {self.at_work[lane]} and at {session}"
            self.at_work[lane] = session
        for job in jobs:
            assert job.id not in self.running, f"job {job.id} is at {self.running[job.id]} and at {session}"
            assert job.fence > self.fences.get(job.id, 0), f"the fence of job {job.id} did not grow"
            self.running[job.id], self.fences[job.id] = session, job.fence
            self.taken.update(job.slots)
        for key, max_count in _FIGURES.items():
            assert self.taken[key] <= max_count, f"{self.taken[key]} have {key}"

    def _end(self, jobs: Sequence[FetchedJob]) -> None:
        for lane in {job.lane for job in jobs if job.lane}:
            del self.at_work[lane]
        for job in jobs:
            del self.running[job.id]
            self.taken.subtract(job.slots)

    async def _acknowledge(self, hand: JobDriver, session: str, jobs: Sequence[FetchedJob]) -> None:
        ends: list[Acknowledgement] = []
        blocked: set[str] = set()
        for job in jobs:
            outcome = Outcome.RETURNED if job.lane in blocked else self.chance.choice(_ENDS)
            if job.lane and outcome in (Outcome.RETRY, Outcome.SNOOZED, Outcome.PARKED, Outcome.RETURNED):
                blocked.add(job.lane)
            ends.append(Acknowledgement(job.id, job.fence, outcome, delay=self.chance.choice((0.0, 1.0))))
        assert all((await hand.jobs.acknowledge(session, ends)).accepted), "a fetch that stood was not acknowledged"

    async def meddle(self, hand: JobDriver) -> None:
        """People."""
        while not self.over:
            await asyncio.sleep(0)
            lane = self.chance.choice(_LANES)
            if self.chance.random() < 0.5:
                await hand.jobs.hold(lane, Attribution("ann", "deploying"))
                await hand.lanes()
            await hand.jobs.release(lane, ANN)
            if self.ids:
                await hand.jobs.cancel(self.chance.choice(self.ids), Attribution("ann", "not wanted"))
                await hand.jobs.retry(self.chance.choice(self.ids), Attribution("ann"))
                await hand.store.insight.situations([self.chance.choice(self.ids)])
            await hand.queues()

    async def calm(self, hand: JobDriver) -> None:
        """When it is over everything comes to its end."""
        session = await self._new_session(hand)
        unfinished: list[int] = []
        for _ in range(200):
            for lane in _LANES:
                await hand.jobs.release(lane, ANN)
            views = await hand.list_jobs(JobFilter(), limit=10_000)
            assert sorted(view.id for view in views) == sorted(self.ids), "jobs were lost or made up"
            unfinished = [view.id for view in views if not view.state.final]
            if not unfinished:
                break
            for view in views:
                if view.state is JobState.PARKED:
                    await hand.jobs.retry(view.id, Attribution("ann"))
            batch = await hand.jobs.fetch(FetchRequest(session, ("q",), ("n",), 100, 100, 10))
            assert isinstance(batch, FetchResult)
            self._begin(session, batch.jobs)
            self._end(batch.jobs)
            await hand.jobs.acknowledge(
                session, [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in batch.jobs]
            )
            hand.clock.advance(1)
        assert not unfinished, f"these are stuck: {unfinished}"
        assert await hand.lanes() == []


class StormConformance(HandsSuite):
    """Lanes, limits and fences hold in a storm, and nothing is left of it."""

    @pytest.mark.parametrize("seed", range(2))
    async def test_a_storm_leaves_nothing_behind(self, store_url: str, seed: int) -> None:
        async with self.hands(store_url) as hands:
            storm = _Storm(hands, seed)
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(storm.feed(hands[0]))
                group.create_task(storm.meddle(hands[1]))
                for number in range(6):
                    group.create_task(storm.work(hands[number % len(hands)]))
            await hands[0].jobs.rescue()
            await storm.calm(hands[0])

            for key, max_count in _FIGURES.items():
                await hands[0].add_many(max_count + 1, uses=(slots(max_count, key),))
                assert len(await hands[0].every("s0")) == max_count, f"slots of {key} were lost or made up"
