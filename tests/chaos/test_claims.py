"""The claims test: whatever is killed, paused, cut or restarted, each key is worked on by one at a time, and done once.

Short here; in `make chaos` 10,000 keys are claimed by 50 claimants each, over 8 processes.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from interlock.errors import LeaseLostError
from tests.chaos.actor import Ear
from tests.chaos.claim_checker import judge_claims
from tests.chaos.claim_runs import as_final, gather_claims, run_claims, run_claims_here
from tests.chaos.claim_worker import Claimant, ClaimPlan
from tests.chaos.nemesis import QUICK, Pace
from tests.chaos.places import FAULTS, KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.claims import Claim

KEYS = int(os.environ.get("INTERLOCK_CHAOS_KEYS", "10000"))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
async def test_each_key_is_done_once_under_faults(
    tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_claims(
        kind,
        tmp_path,
        seed,
        pace=QUICK,
        scale=0.3,
        keys=250,
        claimants=8,
        slots=4,
        session_ttl=2.0,
        lease=(1.5, 3.0),
        slow=0.05,
        long_work=(0.3, 1.2),
        pause=0.07,
    )
    outcome.show_and_check(capsys, FAULTS[kind], new=250, taken_over_from_the_dead=2)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
async def test_ten_thousand_keys_are_done_once_each_by_fifty_claimants(
    tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_claims(
        kind, tmp_path, seed, pace=Pace((0.2, 2.0), 1.5), keys=KEYS, claimants=50, slots=8, slow=0.05
    )
    outcome.show_and_check(capsys, FAULTS[kind], claims_answered=KEYS * 50, new=KEYS, taken_over_from_the_dead=8)


# -- would the test notice? --------------------------------------------------------------------------------------------


async def test_a_run_without_faults_is_clean(tmp_path: Path) -> None:
    outcome = await run_claims_here(tmp_path)
    assert outcome.clean, outcome.table()
    assert outcome.counts["claims answered"] == 120


@pytest.mark.full
@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("new to everybody", "done, and new again"),
        ("attempts that stand still", "one attempt given twice"),
        ("falling fences", "fences going back"),
        ("forgets what is done", "done, and new again"),
        ("failed is done", "done by nobody"),
        ("finishes nothing", "finishing refused to the holder"),
        ("never lets go", "failed or left, and never done"),
    ],
)
async def test_a_broken_store_is_noticed(tmp_path: Path, broken: str, noticed: str) -> None:
    outcome = await run_claims_here(tmp_path, sabotage=broken)
    assert noticed in outcome.noticed, outcome.table()


@pytest.mark.parametrize("broken", ["", "anybody finishes"])
async def test_settling_what_is_somebody_elses_by_now_is_noticed(tmp_path: Path, broken: str) -> None:
    url = f"memory://late-{time.monotonic_ns()}"
    about = {"url": url, "folder": str(tmp_path), "keys": 1, "kept": 0, "claimants": 2, "session_ttl": 60.0}
    plan = ClaimPlan(**about, sabotage=broken)  # type: ignore[arg-type]
    slow, quick = actors = [Claimant(plan, who, 1) for who in ("w0.1", "w1.1")]
    with Ear():
        for actor in actors:
            await actor.open()
        before = await begin(slow)
        time.sleep(1.1)  # nothing is renewed meanwhile
        after = await begin(quick)
        await finish(slow, *before)
        await finish(quick, *after)
        final = as_final(await quick.claims.list())
        for actor in actors:
            await actor.close()
            actor.let_go()
    verdict = judge_claims(gather_claims(plan, final, [], {}))
    assert bool(verdict.late_settled) is bool(broken)
    assert verdict.clean is not bool(broken)
    assert verdict.counts["finishing refused"] == (0 if broken else 1)


async def begin(actor: Claimant) -> tuple[Claim, str]:
    asked = time.monotonic()
    claim = await actor.claims.claim("k00000", ttl=1.0)
    name = actor._answer(claim, "k00000", 0, asked, 1.0)
    actor.note("end", work=name)
    return claim, name


async def finish(actor: Claimant, claim: Claim, name: str) -> None:
    actor.note("finish", work=name, how="done")
    try:
        await claim.done(name)
    except LeaseLostError:
        actor.note("refused", work=name)
    else:
        actor.note("finished", work=name)
