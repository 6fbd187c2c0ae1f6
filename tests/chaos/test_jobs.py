"""The jobs test: whatever is killed, paused, cut or restarted, nothing is lost, and lanes and limits are kept.

Short here; in `make chaos` 200 lanes get 500 jobs each on 8 worker processes, over and over on every store until a
million jobs were worked off (`INTERLOCK_CHAOS_JOBS`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.chaos.job_runs import STOPPED, run_jobs, run_jobs_here
from tests.chaos.job_sabotage import HOW
from tests.chaos.nemesis import QUICK, Pace
from tests.chaos.places import FAULTS

if TYPE_CHECKING:
    from pathlib import Path

KINDS = ("sqlite", "postgres")
JOBS_AT_A_TIME = 100_000
ROUNDS = max(1, int(os.environ.get("INTERLOCK_CHAOS_JOBS", "1000000")) // (len(KINDS) * JOBS_AT_A_TIME))


STUCK = "never finished"


def faults_of(kind: str) -> set[str]:
    return FAULTS[kind] | {"enqueuers: kill -9"} | ({STOPPED} if kind == "postgres" else set())


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_lost_and_order_is_kept_under_faults(
    tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_jobs(
        kind,
        tmp_path,
        seed,
        pace=QUICK,
        scale=0.3,
        once=True,
        lanes=30,
        jobs=3000,
        workers=4,
        enqueuers=2,
        session_ttl=2.0,
        crew=3,
        slow=0.08,
        pause=0.2,
        batch=30,
    )
    outcome.show_and_check(capsys, faults_of(kind), jobs_accepted=3000)
    assert outcome.counts["most at once under slots:crew"] == 3


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("kind", KINDS)
async def test_two_hundred_lanes_of_five_hundred_jobs(
    tmp_path: Path, seed: int, kind: str, round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_jobs(
        kind, tmp_path, seed + round_, pace=Pace((0.2, 2.0), 1.5), lanes=200, jobs=JOBS_AT_A_TIME, pause=0.02
    )
    outcome.show_and_check(capsys, faults_of(kind), jobs_accepted=JOBS_AT_A_TIME, taken_over_from_the_dead=8)
    assert outcome.counts["most at once under slots:crew"] == 5


# -- would the test notice? --------------------------------------------------------------------------------------------


async def test_a_run_without_faults_is_clean(tmp_path: Path) -> None:
    outcome = await run_jobs_here(tmp_path)
    assert outcome.clean, outcome.table()
    assert outcome.counts["jobs accepted"] == 200
    assert outcome.counts["most at once under slots:crew"] == 1
    assert outcome.counts["starts under rates"] > 2


@pytest.mark.full
@pytest.mark.parametrize(("broken", "noticed"), HOW.items())
async def test_a_broken_store_is_noticed(tmp_path: Path, broken: str, noticed: str) -> None:
    outcome = await run_jobs_here(tmp_path, sabotage=broken, patience=0.5 if noticed == STUCK else 20.0)
    assert noticed in outcome.noticed, outcome.table()
    assert (STUCK in outcome.noticed) is (noticed == STUCK), outcome.table()
