"""One claims run per store: claimants under the nemesis, then a sweep by a fresh process, then the verdict."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.claims import Claims
from interlock.testing.processes import Worker
from tests.chaos.actor import Ear
from tests.chaos.claim_checker import ClaimHistory, Final, judge_claims, read_claims
from tests.chaos.claim_worker import Claimant, ClaimPlan, Sweeper, complete
from tests.chaos.nemesis import Fleet, Nemesis, Pace
from tests.chaos.outcome import Outcome
from tests.chaos.places import place
from tests.chaos.records import read_journals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.claims import ClaimView
    from tests.chaos.faults import Fault

__all__ = ["as_final", "final_claims", "gather_claims", "run_claims", "run_claims_here"]

_MAX_SECONDS = 1800.0


async def run_claims(
    kind: str, folder: Path, seed: int, *, pace: Pace, scale: float = 1.0, **changes: object
) -> Outcome:
    """All claimants of all keys, until each was answered and each kind of fault was done."""
    begun = time.monotonic()
    with place(kind, folder, scale=scale) as store:
        about = {"url": store.url, "folder": str(folder), "seconds": _MAX_SECONDS, "seed": seed}
        plan = ClaimPlan(**{**about, **changes})  # type: ignore[arg-type]
        async with Claims.from_url(plan.url, settings=plan.settings):
            pass
        fleet = Fleet(plan, plan.slots, seed, store.ways, "tests.chaos.claim_worker:run")
        try:
            await fleet.ready()
            nemesis = Nemesis(fleet, store.faults, seed, pace=pace)
            await nemesis.run(0.0, enough=lambda: complete(plan), max_seconds=_MAX_SECONDS)
            await fleet.ready()
            fleet.kill_all()
        finally:
            fleet.close()
        async with Worker.spawn("tests.chaos.claim_worker:sweep", [replace(plan, pause=0.0).as_json()]) as sweeper:
            await sweeper.result(300)
        final = await final_claims(plan)
    history = gather_claims(plan, final, fleet.faults, fleet.ended)
    history.oddities += fleet.oddities
    verdict = judge_claims(history)
    return Outcome(
        "claims", store.name, seed, time.monotonic() - begun, verdict.counts, verdict.violations, fleet.fired
    )


async def final_claims(plan: ClaimPlan) -> dict[str, Final]:
    """What the store holds."""
    async with Claims.from_url(plan.url, settings=plan.settings) as claims:
        return as_final(await claims.list(limit=2 * len(plan.all_keys)))


def as_final(views: Sequence[ClaimView]) -> dict[str, Final]:
    """How keys stand."""
    return {view.key: Final(str(view.state), view.attempt, view.fence, view.result) for view in views}


def gather_claims(
    plan: ClaimPlan, final: Mapping[str, Final], faults: list[Fault], ended: Mapping[str, float]
) -> ClaimHistory:
    """Read the journals."""
    folder = Path(plan.folder)
    with (folder / "nemesis.json").open("w") as file:  # for whoever looks into a failure
        json.dump({"faults": [asdict(fault) for fault in faults], "ended": dict(ended), "final": final}, file)
    return ClaimHistory(
        keys=plan.all_keys,
        final=final,
        faults=faults,
        claimants=plan.claimants,
        session_ttl=plan.session_ttl,
        **read_claims(read_journals(folder), ended),
    )


async def run_claims_here(folder: Path, **changes: object) -> Outcome:
    """A small run without faults in one process, in memory, for what needs no more."""
    begun = time.monotonic()
    about = {"url": f"memory://claims-{time.monotonic_ns()}", "folder": str(folder), "slots": 2}
    quick = {
        "keys": 20,
        "claimants": 6,
        "session_ttl": 1.0,
        "lease": (1.0, 1.0),
        "retry_in": 0.1,
        "slow": 0.0,
        "patience": 0.3,
    }
    plan = ClaimPlan(**{**about, **quick, **changes})  # type: ignore[arg-type]
    actors = [Claimant(plan, f"w{slot}.1", slot) for slot in range(plan.slots)]
    sweeper = Sweeper(plan, "sweep", 1)
    with Ear():
        async with asyncio.TaskGroup() as group:
            for actor in actors:
                group.create_task(_be(actor))
            while not complete(plan):
                await asyncio.sleep(0.01)
            for actor in actors:
                actor.stop()
        await sweeper.open()
        await sweeper.sweep()
        views = await sweeper.claims.list()
        await sweeper.close()
    verdict = judge_claims(gather_claims(plan, as_final(views), [], {}))
    for actor in (*actors, sweeper):
        actor.let_go()
    seconds = time.monotonic() - begun
    return Outcome("claims", "memory", 0, seconds, verdict.counts, verdict.violations, Counter())


async def _be(actor: Claimant) -> None:
    await actor.open()
    await actor.run()
    await actor.close()
