"""Random walks: long sequences of all that can be done to jobs, compared with the model after every step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import Acknowledgement, FetchRequest, FetchResult, JobState, OnFailure, Outcome
from interlock.ports.journal import Attribution
from interlock.testing.conformance.driver import ANN
from interlock.testing.conformance.jobs.driver import JobDriver, JobSuite, new_job, pace, slots
from interlock.testing.conformance.jobs.model import Model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob
    from interlock.testing.conformance.jobs.model import ModelJob

__all__ = ["WalkConformance"]

_QUEUE = {"n": "q", "m": "q", "o": "r"}
"""Names, and the queue of each."""
_LIMITS = (slots(1, "a"), slots(3, "b"), pace(2, 7.0, "c"), pace(4, 20.0, "d"))
_LANES = ("v", "w", "x", "y", "z")
_ENDS = (
    *[Outcome.DONE] * 6, *[Outcome.RETRY] * 3, *[Outcome.FAILED] * 3, Outcome.SNOOZED, Outcome.DISCARDED,
    Outcome.CANCELLED, Outcome.PARKED, *[Outcome.RETURNED] * 3,
)  # fmt: skip
_STAYS = (Outcome.RETRY, Outcome.SNOOZED, Outcome.PARKED, Outcome.RETURNED)
_MAX_UNFINISHED = 60
_MAX_FETCHES = 100


class Mix(NamedTuple):
    """Which jobs there are on a walk, as chances."""

    laned: float
    limited: float
    two_limits: float
    names: str


_MIXES = {
    "mixed": Mix(0.6, 0.4, 0.3, "nnnmmo"),
    "lanes": Mix(0.9, 0.05, 0.3, "nnnnnm"),
    "limits": Mix(0.3, 0.95, 0.5, "nnnmmo"),
}


class _Walk:
    """One walk over one store."""

    def __init__(self, driver: JobDriver, mix: Mix, seed: int) -> None:
        self.mix = mix
        self.driver = driver
        self.jobs = driver.jobs
        self.chance = random.Random(seed)
        self.model = Model()
        self.sessions = ["a", "b", "c"]
        self.begun = 0
        self.fetch_number = 0
        self.story: list[str] = []

    async def take(self, steps: int) -> None:
        """So many steps, each followed by a look at everything."""
        ways = {
            self.enqueue: 12, self.fetch: 9, self.acknowledge: 14, self.pass_time: 4, self.return_unstarted: 1,
            self.die: 2, self.cancel: 2, self.retry: 2, self.unpark: 2, self.hold: 1, self.release: 4,
            self.acknowledge_late: 1,
        }  # fmt: skip
        await self.driver.keep(*self.sessions, seconds=1e6)
        for _ in range(steps):
            self.driver.clock.advance(0.001)
            now = self.driver.now
            if any(job.scheduled and job.due <= now for job in self.model.unfinished()):
                await self.fetch()
            else:
                (way,) = self.chance.choices(list(ways), list(ways.values()))
                await way()
            self.model.check(await self.driver.list_jobs(JobFilter(), limit=10_000))

    def tell(self, *what: object) -> None:
        """Record a step for the failure message."""
        self.story.append(f"{self.driver.clock.monotonic():.3f} {' '.join(map(str, what))}")

    async def enqueue(self) -> None:
        if len(self.model.unfinished()) > _MAX_UNFINISHED:
            await self.fetch_all()
            await self.acknowledge()
            return
        lane = self.chance.choice(_LANES)
        jobs = [
            self._any_job(job_id, lane if self.chance.random() < self.mix.laned else "")
            for job_id in await self.jobs.ids(self.chance.randint(1, 6))
        ]
        self.tell("enqueue", *jobs)
        await self.jobs.enqueue(jobs)
        self.model.enqueue(jobs, self.driver.now)
        if self.chance.random() < 0.1:
            known = self.chance.sample(sorted(self.model.jobs), min(3, len(self.model.jobs)))
            again = [self.model.jobs[job_id].new for job_id in known]
            self.tell("again", *known)
            await self.jobs.enqueue(again, again=True)
            self.model.enqueue(again, self.driver.now)

    def _any_job(self, job_id: int, lane: str) -> NewJob:
        chance = self.chance
        name = chance.choice(self.mix.names)
        coalesce = lane == "x" and name != "o" and chance.random() < 0.7
        limits = 0 if coalesce or chance.random() > self.mix.limited else 1 + (chance.random() < self.mix.two_limits)
        return new_job(
            job_id,
            name=name,
            queue=_QUEUE[name],
            lane=lane,
            priority=chance.choice((50, 50, 50, 10, 90)),
            delay=chance.uniform(0.5, 30.0) if chance.random() < 0.15 else 0.0,
            uses=tuple(chance.sample(_LIMITS, limits)),
            on_failure=chance.choice((OnFailure.BLOCK, OnFailure.BLOCK, OnFailure.SKIP, OnFailure.PARK)),
            coalesce=coalesce,
        )

    async def fetch(self) -> None:
        """Some request; what is due is promoted by it in any case."""
        chance = self.chance
        if chance.random() < 0.25:
            await self.fetch_all()
            return
        limit = chance.choice((1, 3, 6, 12))
        at_once = chance.choice((0, 1, limit))
        await self._fetch(
            FetchRequest(self._session(), ("q", "r"), ("n", "m", "o"), limit, at_once, chance.choice((1, 3, 8)))
        )
        if chance.random() < 0.2:
            names = chance.choice((("n",), ("m", "o")))
            await self._fetch(FetchRequest(self._session(), ("q",), names, limit, limit, 2))

    async def fetch_all(self) -> None:
        """Until nothing is left that could be fetched. A fetch that gives nothing may still have woken others."""
        for _ in range(_MAX_FETCHES):
            batch = await self._fetch(FetchRequest(self._session(), ("q", "r"), ("n", "m", "o"), 100, 100, 3))
            idle = not batch.jobs and batch.recheck_in > 0
            if idle and not await self._takeable():
                self.model.check_all_given(("q", "r"), self.sessions, batch.recheck_in, self.driver.now)
                return
        raise AssertionError("jobs are ready, but no fetch gives them")

    async def _takeable(self) -> list[int]:
        """What is ready and not kept waiting by suspects that it must not run beside."""
        ready = await self.driver.list_jobs(JobFilter(states=(JobState.READY,)), limit=10_000)
        return [view.id for view in ready if self.model.may_take(self.model.jobs[view.id], self.sessions)]

    async def _fetch(self, wish: FetchRequest) -> FetchResult:
        self.fetch_number += 1
        wish = wish._replace(fetch_number=self.fetch_number)
        batch = await self.jobs.fetch(wish)
        assert isinstance(batch, FetchResult)
        self.tell(wish, "->", [(job.id, job.lane) for job in batch.jobs], batch.recheck_in)
        self.model.fetch(wish, batch, self.driver.now)
        return batch

    async def acknowledge(self) -> None:
        """Some of what a session has, in the order in which it would run."""
        session = self.chance.choice([one for one in self.sessions if self.model.fetched(one)] or self.sessions)
        runs: dict[int, list[ModelJob]] = {}
        for job in self.model.fetched(session):
            runs.setdefault(job.run, []).append(job)
        ends: list[Acknowledgement] = []
        for run in runs.values():
            if self.chance.random() < 0.8:
                ends += self._ends_of(run)
        await self._acknowledge(session, ends)

    def _ends_of(self, run: Sequence[ModelJob]) -> list[Acknowledgement]:
        ends: list[Acknowledgement] = []
        stays = False
        for job in run[: self.chance.randint(1, len(run))]:
            outcome = self.chance.choice(_ENDS)
            delay = self.chance.uniform(0.5, 25.0) if outcome in (Outcome.RETRY, Outcome.SNOOZED) else 0.0
            ends.append(Acknowledgement(job.id, job.fence, outcome, 0.0, delay, None, "why"))
            stays = outcome in _STAYS and bool(job.lane)
            if stays:
                break
        # The rest of a run is returned with what blocks the lane, as workers do.
        rest = run[len(ends) :] if stays else ()
        return ends + [Acknowledgement(job.id, job.fence, Outcome.RETURNED) for job in rest]

    async def _acknowledge(self, session: str, ends: Sequence[Acknowledgement]) -> None:
        self.tell("acknowledge", session, [(end.id, str(end.outcome), round(end.delay, 3)) for end in ends])
        acknowledged = await self.jobs.acknowledge(session, ends)
        assert list(acknowledged.accepted) == self.model.acknowledge(ends, self.driver.now)
        if ends and self.chance.random() < 0.2:
            again = [end for end in ends if end.outcome is not Outcome.RETURNED]
            assert all((await self.jobs.acknowledge(session, again)).accepted), "a repeated acknowledgement was refused"

    async def acknowledge_late(self) -> None:
        """By fences of fetches that have ended."""
        stale = [(job.id, fence) for job in self.model.jobs.values() for fence in job.stale]
        if stale:
            end = Acknowledgement(*self.chance.choice(stale), self.chance.choice((Outcome.DONE, Outcome.RETRY)))
            self.tell("acknowledge late", end)
            assert list((await self.jobs.acknowledge("a", [end])).accepted) == [False]

    async def pass_time(self) -> None:
        seconds = self.chance.choice((0.1, 1.0, 5.0, 20.0))
        self.tell("pass", seconds)
        self.driver.clock.advance(seconds)

    async def return_unstarted(self) -> None:
        session = self._session()
        kept: dict[int, int] = {}
        for job in self.model.fetched(session):
            kept.setdefault(job.run, job.id)
        but = [job_id for job_id in kept.values() if self.chance.random() < 0.3]
        fetch_number = self.chance.choice((None, self.fetch_number, max(1, self.fetch_number - 10)))
        self.tell("hand back", session, but, fetch_number)
        assert await self.jobs.return_unstarted(session, but, fetch_number=fetch_number) == self.model.return_unstarted(
            session, but, fetch_number
        )

    async def die(self) -> None:
        """A session ends with all that it has, and another one comes."""
        dead = self._session()
        self.begun += 1
        new = f"{dead[0]}{self.begun}"
        self.sessions[self.sessions.index(dead)] = new
        self.tell("die", dead)
        await self.driver.begin(new, seconds=1e6)
        await self.driver.store.sessions.end(dead)
        rescued = list(await self.jobs.rescue())
        self.model.rescue(dead, rescued)

    async def cancel(self) -> None:
        job = self._any()
        # Whether the start of a job that was to end and then never started counts for a pace is left to the store.
        if job and not (job.session and any(use.per for use in job.new.uses)):
            self.tell("cancel", job.id)
            state = await self.jobs.cancel(job.id, Attribution("ann", "not wanted"))
            self.model.cancel(job)
            assert state in self.model.states(job)

    async def retry(self) -> None:
        if job := self._any(ended=self.chance.random() < 0.5):
            self.tell("retry", job.id)
            state = await self.jobs.retry(job.id, Attribution("ann"))
            self.model.retry(job, self.driver.now)
            assert state in self.model.states(job), f"{state} is not among {self.model.states(job)}"

    async def unpark(self) -> None:
        """A person sees to what waits for one."""
        for job in self.model.unfinished():
            if job.parked:
                self.tell("retry", job.id)
                await self.jobs.retry(job.id, Attribution("ann"))
                self.model.retry(job, self.driver.now)

    async def hold(self) -> None:
        lane = self.chance.choice(_LANES)
        self.tell("hold", lane)
        await self.jobs.hold(lane, Attribution("ann", "deploying"))
        self.model.stopped.setdefault(lane, set()).add("held")

    async def release(self) -> None:
        lane = self.chance.choice([lane for lane in _LANES if self.model.stopped.get(lane)] or _LANES)
        self.tell("release", lane)
        assert await self.jobs.release(lane, ANN) is bool(self.model.stopped.pop(lane, None))

    async def finish(self) -> None:
        """Let everything that is left come to its end: nothing is stuck, nothing is lost."""
        for lane in _LANES:
            await self.jobs.release(lane, ANN)
            self.model.stopped.pop(lane, None)
        await self.unpark()
        for _ in range(200):
            if not self.model.unfinished():
                break
            await self.fetch_all()
            for session in self.sessions:
                mine = self.model.fetched(session)
                await self._acknowledge(session, [Acknowledgement(job.id, job.fence, Outcome.DONE) for job in mine])
            self.driver.clock.advance(5)
        self.model.check(await self.driver.list_jobs(JobFilter(), limit=10_000))
        assert not self.model.unfinished(), "jobs are stuck"
        assert await self.driver.lanes() == []
        self.driver.clock.advance(100)
        for use in _LIMITS:
            await self.driver.add_many(use.max_count + 1, uses=(use,))
            given = await self.driver.every(self.sessions[0])
            assert len(given) == use.max_count, f"room of {use.key} was lost or made up"

    def _session(self) -> str:
        return self.chance.choice(self.sessions)

    def _any(self, *, ended: bool = False) -> ModelJob | None:
        jobs = [job for job in self.model.jobs.values() if bool(job.ended) is ended]
        return self.chance.choice(jobs) if jobs else None


class WalkConformance(JobSuite):
    """For any operations in any order, the store does what the model allows."""

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("mix", list(_MIXES))
    async def test_a_random_walk_keeps_to_the_model(self, store_url: str, mix: str, seed: int) -> None:
        async with self.job_driver(store_url) as b:
            walk = _Walk(b, _MIXES[mix], seed)
            try:
                await walk.take(150)
                await walk.finish()
            except AssertionError as error:
                steps = "\n".join(walk.story[-40:])
                raise AssertionError(f"{mix} {seed}: {error}\nThe last steps were:\n{steps}") from error
            assert JobState.DONE in {job.ended for job in walk.model.jobs.values()}
