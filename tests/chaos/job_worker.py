"""The programs of a jobs run: processes that run jobs whose handlers journal what they do, and what jobs there are.

A job carries its ticket, and its fate: how its handler is to end. Handlers write down when they start and end; what
passes between the library and the store about fetches and acknowledgements is written down as it is said.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock import App, Cooldown, Discard, Rate, Retry, RetryLater, Slots, Snooze, current_job
from interlock.ports.jobs import FetchResult
from tests.chaos.actor import Actor, BasePlan, run_process
from tests.chaos.job_sabotage import sabotage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.jobs import Job
    from interlock.limits.kinds import Limit
    from interlock.ports.jobs import Acknowledged, Acknowledgement, FetchRequest, JobStore, SessionEnded

__all__ = ["JobPlan", "Laborer", "OpenApp", "define", "run"]


@dataclass(frozen=True, kw_only=True)
class JobPlan(BasePlan):
    """What every process of a jobs run is told."""

    tasks: int = 2
    """How many calls each enqueuer makes at once."""
    lanes: int = 200
    jobs: int = 100_000
    """How many are to be accepted, by all enqueuers together."""
    workers: int = 8
    enqueuers: int = 2
    concurrency: int = 20
    crew: int = 5
    """How many jobs of the crew may run at once."""
    rate: int = 20
    per: float = 0.5
    cooldown: float = 0.2
    accounts: int = 6
    batch: int = 40
    """The most jobs of one call."""
    pause: float = 0.0
    """How long an enqueuer rests between two calls, at the most."""
    longest_delay: float = 2.0
    paced: float = 0.01
    """The share of the jobs with a pace."""
    slow: float = 0.02
    """How often work takes long."""
    long_work: tuple[float, float] = (0.3, 1.5)

    @property
    def lane_names(self) -> list[str]:
        return [f"l{number:03}" for number in range(self.lanes)]

    @property
    def newest_names(self) -> list[str]:
        """Lanes in which a job makes the waiting ones before it superfluous."""
        return [f"n{number:03}" for number in range(max(1, self.lanes // 20))]


class OpenApp:
    """An app that is opened and closed by calls."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def open(self) -> None:
        await self._app.__aenter__()

    async def close(self) -> None:
        await self._app.__aexit__(None, None, None)


def define(app: App, plan: JobPlan, laborer: Laborer | None = None) -> dict[str, Job[Any, Any]]:
    """The jobs of the run by kind. Who only enqueues needs no laborer."""

    async def work(ticket: str, fate: str, work: float, account: str) -> None:
        assert laborer is not None
        await laborer.work_on(ticket, fate, work)

    def work_in_thread(ticket: str, fate: str, work: float, account: str) -> None:
        assert laborer is not None
        laborer.work_on_in_thread(ticket, fate, work)

    retry = Retry(attempts=8, delay=0.02, max_delay=0.2)
    crew = Slots("crew", plan.crew)
    paces: list[Limit] = [Rate("api", plan.rate, per=plan.per), Cooldown("account", plan.cooldown, key="{account}")]
    return {
        "plain": app.job(name="plain", retry=retry)(work),
        "thread": app.job(name="thread", retry=retry)(work_in_thread),
        "crew": app.job(name="crew", retry=retry, limits=[crew])(work),
        "paced": app.job(name="paced", retry=retry, limits=paces)(work),
        "paced crew": app.job(name="paced_crew", retry=retry, limits=[crew, *paces])(work),
        "skip": app.job(name="skip", retry=retry, on_failure="skip")(work),
        "newest": app.job(name="newest", retry=retry, lane="{ticket}", coalesce=True)(work),
    }


class Laborer(Actor):
    """One worker process."""

    def __init__(self, plan: JobPlan, who: str, seed: int) -> None:
        self.app = App(plan.url, settings=plan.settings)
        define(self.app, plan, self)
        super().__init__(plan, who, seed, OpenApp(self.app))  # type: ignore[arg-type]
        self.plan = plan
        self._runs = itertools.count(1)

    def opened(self) -> None:
        store = self.app.jobs._store_client.store
        sabotage(store, self.plan.sabotage)
        _overhear(store.jobs, self)

    async def run(self) -> None:
        """Work until stopped, or until the plan's time is over. Then finish what runs, or stop it, as it comes."""
        async with self.app.worker(concurrency=self.plan.concurrency) as worker:
            try:
                async with asyncio.timeout(self.plan.seconds):
                    await self.stopping.wait()
            except TimeoutError:
                pass
            if self.dice.random() < 0.5:
                await worker.stop()

    # -- handlers ----------------------------------------------------------------------------------------------------

    async def work_on(self, ticket: str, fate: str, work: float) -> None:
        run, how = self._begin(ticket), "cancelled"
        try:
            if work:
                await asyncio.sleep(work)
            how = self._end_of(fate)
        finally:
            self.note("end", run=run, how=how)
        _raise(how)

    def work_on_in_thread(self, ticket: str, fate: str, work: float) -> None:
        run = self._begin(ticket)
        if work:
            time.sleep(work)
        how = self._end_of(fate)
        self.note("end", run=run, how=how)
        _raise(how)

    def _begin(self, ticket: str) -> int:
        job, run = current_job(), next(self._runs)
        about = {"id": job.id, "lane": job.lane, "fence": job.fence, "attempt": job.attempt}
        self.note("start", run=run, ticket=ticket, **about)
        return run

    def _end_of(self, fate: str) -> str:
        attempt = current_job().attempt
        if fate.startswith("fails ") and attempt <= int(fate.removeprefix("fails ")):
            return "retry later" if attempt % 3 == 2 else "retry"
        if fate == "snooze" and self.dice.random() < 0.5:
            return "snoozed"
        return {"permanent": "failed", "discard": "discarded"}.get(fate, "done")


def _raise(how: str) -> None:
    if how == "retry":
        raise ConnectionError("not this time")
    if how == "retry later":
        raise RetryLater(0.05, "not now")
    if how == "snoozed":
        raise Snooze(0.05)
    if how == "failed":
        raise TypeError("never")
    if how == "discarded":
        raise Discard("no need")


def _overhear(jobs: JobStore, actor: Actor) -> None:
    """Note what a worker asks of the store, and what it is told."""
    if jobs.fetch.__name__ == "fetch_noting":  # a store in memory may be shared
        return
    fetch, acknowledge = jobs.fetch, jobs.acknowledge

    async def fetch_noting(request: FetchRequest) -> FetchResult | SessionEnded:
        asked = time.monotonic()
        actor.note("fetching")
        batch = await fetch(request)
        given = [(job.id, job.fence) for job in batch.jobs] if isinstance(batch, FetchResult) else []
        actor.note("fetched", asked=asked, jobs=given)
        return batch

    async def acknowledge_noting(session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        asked = time.monotonic()
        try:
            acknowledged = await acknowledge(session, acknowledgements)
        except BaseException:
            actor.note("acknowledging unheard", asked=asked, jobs=[(one.id, one.fence) for one in acknowledgements])
            raise
        told = zip(acknowledgements, acknowledged.accepted, strict=True)
        jobs = [(one.id, one.fence, str(one.outcome), accepted) for one, accepted in told]
        actor.note("acknowledged", asked=asked, jobs=jobs)
        return acknowledged

    jobs.fetch = fetch_noting  # type: ignore[method-assign]
    jobs.acknowledge = acknowledge_noting  # type: ignore[method-assign]


async def run(plan: dict[str, Any], who: str, seed: int) -> None:
    """Be one worker process of a jobs run until SIGTERM."""
    await run_process(Laborer(JobPlan.from_json(plan), who, seed))
