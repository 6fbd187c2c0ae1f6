"""Workers in a storm: answers are lost, sessions too, lanes are held, workers come and go.

Whatever happens, every job ends, none of them runs twice at the same time, and lanes keep their order. Each seed is
another storm, in virtual time; the same seed gives the same one.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest

from interlock.errors import StoreUnavailableError
from interlock.jobs.current import current_job
from interlock.jobs.retry import Retry
from interlock.jobs.signals import Discard, Snooze
from interlock.ports.jobs import Outcome
from interlock.settings import Settings
from interlock.testing.simulator import SeededLoop
from tests.jobs.worker.fakes import FakeJobs, floor

if TYPE_CHECKING:
    from interlock.ports.jobs import Acknowledgement, FetchedJob
    from tests.jobs.worker.fakes import Floor

JOBS = 120
SETTINGS = Settings(stuck_work="report", store_wait=0.1, recheck_interval=0.05)


class LoopClock:
    """The loop's own time."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> float:
        return 1_800_000_000.0 + self.monotonic()


class StormyJobs(FakeJobs):
    """Refuses, loses answers, and takes its time, by chance."""

    dice: random.Random
    wind: float
    all: dict[int, FetchedJob]
    broken: AssertionError | None = None

    async def _enter(self, name: str) -> None:
        self.under_way[name] += 1
        await self._dawdle("before")

    async def _leave(self, name: str) -> None:
        await self._dawdle("after")

    async def _dawdle(self, when: str) -> None:
        for _ in range(self.dice.randrange(3)):
            await asyncio.sleep(0)
        if self.dice.random() < 0.05:
            await asyncio.sleep(self.dice.random() * 0.01)
        if self.dice.random() < self.wind:
            raise StoreUnavailableError(when)

    def _acknowledge(self, session: str, acknowledgement: Acknowledgement) -> bool:
        before = len(self.acknowledged)
        accepted = super()._acknowledge(session, acknowledgement)
        if len(self.acknowledged) > before and acknowledgement.outcome in (Outcome.RETRY, Outcome.SNOOZED):
            self.ready[acknowledgement.id] = self.all[acknowledgement.id]  # due again at once
        return accepted


class Storm:
    """One of them, and what must not happen in it."""

    def __init__(self, place: Floor, seed: int) -> None:
        self.place = place
        self.dice = random.Random(f"storm/{seed}")
        self.running: Counter[int] = Counter()
        self.lanes: Counter[str] = Counter()
        self.started = 0
        place.jobs.__class__ = StormyJobs
        self.jobs = cast("StormyJobs", place.jobs)
        self.jobs.dice, self.jobs.wind, self.jobs.all = self.dice, 0.05, {}
        self.jobs.generous = self.dice.random() < 0.3
        self.jobs.limit = self.dice.choice([3, 20, 500])
        place.job(self.handler(), retry=Retry(attempts=1000), timeout=0.03)
        for number in range(JOBS):
            lane = f"lane {self.dice.randrange(6)}" if self.dice.random() < 0.6 else ""
            job = self.jobs.add(lane=lane, arguments=json.dumps({"number": number}))
            self.jobs.all[job] = self.jobs.ready[job]

    def handler(self) -> Any:
        async def handler(number: int) -> None:
            job = current_job()
            self.started += 1
            self.running[job.id] += 1
            self.lanes[job.lane] += bool(job.lane)
            try:
                assert self.running[job.id] == 1, f"{job.id} runs twice"
                assert self.lanes[job.lane] <= 1, f"two of {job.lane} run"
                before = [i for i, other in self.jobs.all.items() if other.lane == job.lane and i < job.id and job.lane]
                ours = self.jobs.fetched.get(job.id, (None, job))[1].fence == job.fence
                assert not ours or all(i in self.jobs.ended for i in before), f"{job.id} before {before}"
                await self.something()
            except AssertionError as error:
                self.jobs.broken = error
                raise
            finally:
                self.running[job.id] -= 1
                self.lanes[job.lane] -= bool(job.lane)

        return handler

    async def something(self) -> None:
        kind, end = self.dice.random(), self.dice.random()
        if 0.4 <= kind < 0.8:
            for _ in range(self.dice.randrange(6)):
                await asyncio.sleep(0)
        elif kind >= 0.8:
            await asyncio.sleep(0.05 if kind > 0.95 else self.dice.random() * 0.01)
        if end < 0.05:
            raise ValueError
        if end < 0.08:
            raise Snooze(0.001)
        if end < 0.1:
            raise Discard("nothing to do")

    async def blow(self) -> None:
        """Let things go wrong, then calm down."""
        while asyncio.get_running_loop().time() < 5.0:
            await asyncio.sleep(self.dice.random() * 0.03)
            what, session = self.dice.random(), self.place.session
            if what < 0.25:
                if not session.lost:
                    self.place.lose_session()
            elif what < 0.4:
                self.place.engine.turn(None)
            elif what < 0.6 and self.jobs.fetched:
                job = self.dice.choice(list(self.jobs.fetched))
                self.place.taken(job, "held by ann: wait")
            elif what < 0.8:
                self.jobs.wind = self.dice.choice([0.0, 0.05, 0.3, 1.0])
            else:
                self.jobs.wind = 0.05
                self.jobs.tell()
        self.jobs.wind = 0.0

    async def come_and_go(self) -> None:
        """A worker now and then."""
        while True:
            worker = self.place.worker(concurrency=self.dice.choice([1, 3, 10]))
            worker.open()
            await asyncio.sleep(self.dice.random() * 0.2)
            await (worker.finish() if self.dice.random() < 0.5 else worker.stop())

    async def run(self) -> None:
        coming = [asyncio.create_task(work) for work in (self.blow(), self.come_and_go(), self.come_and_go())]
        async with self.place.at_work(self.place.worker(concurrency=4)):
            await self.until_all_have_ended()
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)
        for worker in list(self.place.engine.workers):
            await worker.stop()
        if self.jobs.broken is not None:
            raise self.jobs.broken
        assert not self.jobs.fetched
        assert self.place.session.at_work == 0
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("interlock-runner")]

    async def until_all_have_ended(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self.jobs.ended) < JOBS and self.jobs.broken is None:
            left = sorted(set(self.jobs.all) - set(self.jobs.ended))
            states = [worker.status() for worker in self.place.engine.workers]  # type: ignore[attr-defined]
            assert loop.time() < 60, f"{left} have not ended; {self.jobs.fetched}; {states}"
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(25))
def test_a_storm(seed: int) -> None:
    async def main() -> None:
        async with floor(LoopClock(), SETTINGS) as place:
            await Storm(place, seed).run()

    random.seed(seed)  # what keeps workers apart
    loop = SeededLoop(seed, max_steps=5_000_000)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
