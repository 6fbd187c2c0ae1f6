"""The limits test: whatever is killed, paused, cut or restarted, never more at once nor more often than allowed.

Short here, ten minutes and more per store in `make chaos` (`INTERLOCK_CHAOS_SECONDS`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.chaos.limit_runs import run_limits, run_limits_here
from tests.chaos.nemesis import QUICK, Pace
from tests.chaos.places import FAULTS, KINDS

if TYPE_CHECKING:
    from pathlib import Path

LONG = float(os.environ.get("INTERLOCK_CHAOS_SECONDS", "600"))


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
async def test_limits_hold_under_faults(
    tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_limits(
        kind, tmp_path, 5.0, seed, pace=QUICK, starts=100, at_once=5, scale=0.3, session_ttl=2.0, slow=0.1
    )
    outcome.show_and_check(capsys, FAULTS[kind], starts=100)
    assert outcome.counts["most at once under slots:crew"] == 5


@pytest.mark.chaos
@pytest.mark.timeout(LONG + 300)
@pytest.mark.parametrize("kind", KINDS)
async def test_limits_hold_for_long(tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    starts = int(LONG * 10)
    outcome = await run_limits(kind, tmp_path, LONG, seed, pace=Pace((0.2, 2.0), 1.5), starts=starts)
    outcome.show_and_check(capsys, FAULTS[kind], starts=starts)


# -- would the test notice? --------------------------------------------------------------------------------------------


async def test_a_run_without_faults_is_clean(tmp_path: Path) -> None:
    outcome = await run_limits_here(tmp_path)
    assert outcome.clean, outcome.table()
    assert outcome.counts["most at once under slots:crew"] == 5


@pytest.mark.full
@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("one too many", "too many at once"),
        ("forgets starts of others", "too many in a span"),
        ("shorter spans", "too many in a span"),
        ("invented times", "times that cannot be"),
        ("never free", "slots never free again"),
    ],
)
async def test_a_broken_store_is_noticed(tmp_path: Path, broken: str, noticed: str) -> None:
    outcome = await run_limits_here(tmp_path, sabotage=broken)
    assert noticed in outcome.noticed, outcome.table()
