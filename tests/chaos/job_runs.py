"""One jobs run per store: enqueuers and workers under the nemesis, then peace until all is done, then the verdict.

A job that was at hand when its third worker died is quarantined, as it should be. It counts as reported, and is retried
by hand in the end, as an operator would; then it must be done like all others.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from interlock import App
from interlock.errors import StoreUnavailableError
from interlock.jobs.listing import list_jobs, list_lanes
from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState
from interlock.ports.journal import Attribution
from interlock.testing.clock import until
from tests.chaos.actor import Ear
from tests.chaos.job_checker import JobVerdict, judge_jobs
from tests.chaos.job_enqueuer import Enqueuer, complete
from tests.chaos.job_history import Final, JobHistory, read_jobs
from tests.chaos.job_worker import JobPlan, Laborer
from tests.chaos.nemesis import Fleet, Nemesis, Pace
from tests.chaos.outcome import Outcome
from tests.chaos.places import Place, place
from tests.chaos.records import read_journals
from tests.chaos.store_faults import ServerFaults

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator, Mapping, Sequence

    from interlock.ports.insight import JobInsight
    from interlock.ports.job_views import JobView
    from interlock.ports.jobs import JobStore
    from tests.chaos.faults import Fault
    from tests.chaos.store_faults import Card, StoreFaults

__all__ = ["STOPPED", "run_jobs", "run_jobs_here"]

STOPPED = "server stopped at once"
_MAX_SECONDS = 1800.0
_OPERATOR = Attribution("an operator", "the run is over")
_UNFINISHED = tuple(state for state in JobState if not state.final)
_ALL = 10_000_000
_LONGEST_HOLD = 2.0


async def run_jobs(
    kind: str,
    folder: Path,
    seed: int,
    *,
    pace: Pace,
    scale: float = 1.0,
    once: bool = False,
    patience: float = 60.0,
    **changes: object,
) -> Outcome:
    """Each kind of fault is done over and over until all jobs were accepted and worked off, or just ``once``."""
    begun = time.monotonic()
    with place(kind, folder, scale=scale) as store:
        about = {"url": store.url, "folder": str(folder), "seconds": _MAX_SECONDS}
        plan = JobPlan(**{**about, **changes})  # type: ignore[arg-type]
        async with _Overseer(plan).at_work() as overseer:
            workers = Fleet(plan, plan.workers, seed, store.ways, "tests.chaos.job_worker:run")
            enqueuers = Fleet(plan, plan.enqueuers, seed + 1, store.ways, "tests.chaos.job_enqueuer:run", letter="e")
            try:
                await asyncio.gather(workers.ready(), enqueuers.ready())
                await asyncio.gather(
                    Nemesis(workers, _faults(store, plan), seed, pace=pace).run(
                        0.0, enough=lambda: once or (overseer.idle and complete(plan)), max_seconds=_MAX_SECONDS
                    ),
                    Nemesis(enqueuers, _NoFaults(), seed, pace=pace).run(
                        0.0, enough=lambda: once or complete(plan), max_seconds=_MAX_SECONDS
                    ),
                )
                await until(lambda: complete(plan), within=patience)
                await enqueuers.stop()
                await overseer.finish(patience)
                await workers.stop()
            finally:
                enqueuers.close()
                workers.close()
            overseer.final = await overseer.look()
    ended = {**workers.ended, **enqueuers.ended}
    verdict = _judged(
        plan, overseer, [*workers.faults, *enqueuers.faults], ended, workers.oddities + enqueuers.oddities
    )
    fired = workers.fired + Counter({f"enqueuers: {name}": often for name, often in enqueuers.fired.items()})
    seconds = time.monotonic() - begun
    return Outcome("jobs", store.name, seed, seconds, verdict.counts, verdict.violations, fired)


async def run_jobs_here(folder: Path, *, patience: float = 20.0, **changes: object) -> Outcome:
    """A small run without faults in one process, in memory, for what needs no more."""
    begun = time.monotonic()
    about = {"url": f"memory://jobs-{time.monotonic_ns()}", "folder": str(folder), "seconds": 30.0}
    small = {"lanes": 5, "jobs": 200, "enqueuers": 1, "crew": 1, "batch": 20, "slow": 0.0, "longest_delay": 0.2}
    paces = {"rate": 2, "per": 0.1, "cooldown": 0.05, "paced": 0.05}
    plan = JobPlan(**{**about, **small, **paces, **changes})  # type: ignore[arg-type]
    actors = [Laborer(plan, "w0.1", 1), Enqueuer(plan, "e0.1", 2)]
    with Ear():
        async with _Overseer(plan).at_work() as overseer, asyncio.TaskGroup() as group:
            for actor in actors:
                await actor.open()
                group.create_task(actor.run())
            while not complete(plan):
                await asyncio.sleep(0.01)
            await overseer.finish(patience)
            overseer.final = await overseer.look()
            for actor in actors:
                actor.stop()
        for actor in actors:
            await actor.close()
    verdict = _judged(plan, overseer, [], {}, [])
    for actor in actors:
        actor.let_go()
    seconds = time.monotonic() - begun
    return Outcome("jobs", "memory", 0, seconds, verdict.counts, verdict.violations, Counter())


class _Overseer:
    """Looks into the store from outside: whether there is anything left to do, and how everything ended."""

    def __init__(self, plan: JobPlan) -> None:
        self._plan = plan
        self._app = App(plan.url, settings=plan.settings)
        self.idle = False
        """Whether nothing was left to do when it looked last."""
        self.final: Mapping[int, Final] = {}
        self.quarantined: dict[int, Final] = {}
        self.unfinished: list[str] = []

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[_Overseer]:
        async with self._app:
            watching = asyncio.create_task(self._watch())
            try:
                yield self
            finally:
                watching.cancel()
                await asyncio.wait([watching])
            if not watching.cancelled():
                watching.result()

    @property
    def _store(self) -> JobStore:
        return self._app.jobs._store_client.store.jobs

    @property
    def _insight(self) -> JobInsight:
        return self._app.jobs._store_client.store.insight

    async def finish(self, patience: float) -> None:
        """Put right what a person has to put right, and wait until nothing is left to do."""
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            left = await list_jobs(self._insight, JobFilter(states=_UNFINISHED), 1000)
            quarantined = await list_jobs(self._insight, JobFilter(states=(JobState.QUARANTINED,)), 1000)
            if not left and not quarantined:
                return
            for view in quarantined:
                self.quarantined[view.id] = _final(view)
                await self._store.retry(view.id, _OPERATOR)
            await self._release()
            await asyncio.sleep(0.1)
        for view in await list_jobs(self._insight, JobFilter(states=_UNFINISHED), 20):
            self.unfinished.append(f"{view._replace(arguments='')}: {await self._insight.situations([view.id])}")

    async def look(self) -> dict[int, Final]:
        """How every job stands."""
        return {view.id: _final(view) for view in await list_jobs(self._insight, JobFilter(), _ALL)}

    async def _watch(self) -> None:
        while True:
            try:
                self.idle = not await list_jobs(self._insight, JobFilter(states=_UNFINISHED), 1)
                await self._release()
            except StoreUnavailableError:
                self.idle = False
            await asyncio.sleep(0.5)

    async def _release(self) -> None:
        """End holds whose holder was killed before it could."""
        for lane in await list_lanes(self._insight, 10_000):
            if lane.held_by == "nemesis" and lane.seen_at - (lane.held_since or 0.0) > _LONGEST_HOLD:
                await self._store.release(lane.lane, _OPERATOR)


def _final(view: JobView) -> Final:
    return Final(str(view.state), view.attempt, view.fence, view.crashes, view.superseded_by)


def _judged(
    plan: JobPlan, overseer: _Overseer, faults: list[Fault], ended: Mapping[str, float], oddities: Sequence[str]
) -> JobVerdict:
    folder = Path(plan.folder)
    with (folder / "nemesis.json").open("w") as file:  # for whoever looks into a failure
        about = {"ended": dict(ended), "final": overseer.final, "quarantined": overseer.quarantined}
        json.dump({"faults": [asdict(fault) for fault in faults], **about}, file)
    found = read_jobs(read_journals(folder), ended, plan.session_ttl)
    found["oddities"] += oddities
    history = JobHistory(
        final=overseer.final,
        quarantined=overseer.quarantined,
        faults=faults,
        unfinished=overseer.unfinished,
        session_ttl=plan.session_ttl,
        **found,
    )
    return judge_jobs(history)


# -- faults ------------------------------------------------------------------------------------------------------------


class _NoFaults:
    """Leaves the store alone, where another nemesis sees to it."""

    def deck(self, dice: random.Random) -> Sequence[Card]:
        return []

    def heal(self) -> None:
        pass


class _Outages:
    """What is done to a server anyway, and besides it is stopped and started three times, once past all sessions."""

    def __init__(self, others: ServerFaults, session_ttl: float) -> None:
        self._others = others
        self._session = session_ttl

    def deck(self, dice: random.Random) -> Sequence[Card]:
        seconds = [dice.uniform(0.0, 0.3), dice.uniform(0.3, 0.8), dice.uniform(1.1, 1.5)]
        stops: list[Card] = [(STOPPED, lambda away=away: self._stop(away * self._session)) for away in seconds]  # type: ignore[misc]
        return [*self._others.deck(dice), *stops]

    def heal(self) -> None:
        self._others.heal()

    async def _stop(self, seconds: float) -> int:
        server = self._others._server
        os.kill(server.pid, signal.SIGQUIT)  # as `pg_ctl stop -m immediate` does
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(server.start)
        return 1


def _faults(store: Place, plan: JobPlan) -> StoreFaults:
    if isinstance(store.faults, ServerFaults):
        return _Outages(store.faults, plan.session_ttl)
    return store.faults
