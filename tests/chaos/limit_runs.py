"""One limits run per store: work under the nemesis, then all slots at once for a newcomer, then the verdict."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.errors import InterlockError
from interlock.limits import Limits
from tests.chaos.actor import Ear
from tests.chaos.limit_checker import LimitHistory, LimitVerdict, judge_limits, read_starts
from tests.chaos.limit_worker import LimitPlan, Starter
from tests.chaos.nemesis import MORE_SECONDS, Fleet, Nemesis, Pace
from tests.chaos.outcome import Outcome
from tests.chaos.places import place
from tests.chaos.records import entered, read_journals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.chaos.faults import Fault

__all__ = ["run_limits", "run_limits_here"]


async def run_limits(
    kind: str,
    folder: Path,
    seconds: float,
    seed: int,
    *,
    pace: Pace,
    starts: int,
    at_once: int = 0,
    scale: float = 1.0,
    processes: int = 8,
    **changes: object,
) -> Outcome:
    """Processes at work for so long, and until there were so many starts and so many were at work at once; in the end
    all of them are killed, and their slots must be free soon after.
    """
    begun = time.monotonic()
    with place(kind, folder, scale=scale) as store:
        about = {"url": store.url, "folder": str(folder), "seconds": seconds + 2 * MORE_SECONDS}
        plan = LimitPlan(**{**about, **changes})  # type: ignore[arg-type]
        async with Limits.from_url(plan.url, settings=plan.settings):
            pass
        fleet = Fleet(plan, processes, seed, store.ways, "tests.chaos.limit_worker:run")

        def enough() -> bool:
            if entered(folder) < starts:
                return False
            so_far = _judged(plan, fleet.faults, fleet.ended, [], [])
            return so_far.counts["most at once under slots:crew"] >= at_once

        try:
            await fleet.ready()
            await Nemesis(fleet, store.faults, seed, pace=pace).run(
                seconds, enough=enough, max_seconds=seconds + MORE_SECONDS
            )
            fleet.kill_all()
        finally:
            fleet.close()
        stuck = await _take_all(plan, patience=3.0)
    verdict = _judged(plan, fleet.faults, fleet.ended, stuck, fleet.oddities)
    seconds = time.monotonic() - begun
    return Outcome("limits", store.name, seed, seconds, verdict.counts, verdict.violations, fleet.fired)


async def run_limits_here(folder: Path, seconds: float = 0.5, **changes: object) -> Outcome:
    """A small run without faults in one process, in memory, for what needs no more."""
    about = {"url": f"memory://limits-{time.monotonic_ns()}", "folder": str(folder), "session_ttl": 1.0}
    plan = LimitPlan(**{**about, **changes})  # type: ignore[arg-type]
    actors = [Starter(plan, f"w{number}.1", number) for number in range(3)]
    with Ear():
        for actor in actors:
            await actor.open()
        async with asyncio.TaskGroup() as group:
            for actor in actors:
                group.create_task(actor.run())
            await asyncio.sleep(seconds)
            for actor in actors:
                actor.stop()
        stuck = await _take_all(plan, patience=0.3)  # while they live, and have nothing
        for actor in actors:
            await actor.close()
    verdict = _judged(plan, [], {}, stuck, [])
    for actor in actors:
        actor.let_go()
    return Outcome("limits", "memory", 0, seconds, verdict.counts, verdict.violations, Counter())


async def _take_all(plan: LimitPlan, patience: float) -> list[str]:
    """A newcomer takes every slot there is, and has all of them at once, soon after the sessions of all have ended."""
    patience += plan.session_ttl
    async with Limits.from_url(plan.url, settings=plan.settings) as limits:
        try:
            async with asyncio.timeout(patience + 1.0):
                turns = [limits.acquire(plan.crew, wait=patience) for _ in range(plan.max_count)]
                taken = await asyncio.gather(*(turn._begin() for turn in turns))
        except (InterlockError, TimeoutError) as error:
            return [f"not all slots could be had within {patience:g} s: {error!r}"]
        for reservation in taken:
            await reservation.finish()
    return []


def _judged(
    plan: LimitPlan, faults: list[Fault], ended: Mapping[str, float], stuck: list[str], oddities: list[str]
) -> LimitVerdict:
    folder = Path(plan.folder)
    with (folder / "nemesis.json").open("w") as file:  # for whoever looks into a failure
        json.dump({"faults": [asdict(fault) for fault in faults], "ended": dict(ended)}, file)
    found = read_starts(read_journals(folder), ended, plan.session_ttl)
    found["oddities"] += oddities
    return judge_limits(LimitHistory(faults=faults, stuck=stuck, session_ttl=plan.session_ttl, **found))
