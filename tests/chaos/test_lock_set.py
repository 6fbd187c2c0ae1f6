"""The lock-set test: whatever is killed, paused, cut or restarted, a key has one holder and its queue is kept.

Short here (`make test`), ten minutes and more per store in `make chaos` (`INTERLOCK_CHAOS_SECONDS`). A failure prints
the seed; `INTERLOCK_CHAOS_SEED` runs the same plan of faults again.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.runs import Outcome, run_memory, run_postgres, run_sqlite
from tests.chaos.sabotage import DEAF

if TYPE_CHECKING:
    from pathlib import Path

SHORT = 12.0
LONG = float(os.environ.get("INTERLOCK_CHAOS_SECONDS", "600"))

PROCESS_FAULTS = {"kill -9", "SIGTERM", "short pause", "pause", "long pause"}
SQLITE_FAULTS = PROCESS_FAULTS | {"write lock held"}
POSTGRES_FAULTS = PROCESS_FAULTS | {
    *("server restart", "server crash", "reset", "blackhole", "half_open", "drop_replies", "delay", "refuse")
}
MEMORY_FAULTS = {"cancelled attempts", "forced releases", "closed and opened anew", "loop held up"}


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("INTERLOCK_CHAOS_SEED") or random.SystemRandom().randrange(1_000_000))


async def test_sqlite_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_sqlite(tmp_path, SHORT, seed)
    show_and_check(outcome, capsys, faults=SQLITE_FAULTS, grants=200)


async def test_postgres_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_postgres(tmp_path, SHORT, seed)
    show_and_check(outcome, capsys, faults=POSTGRES_FAULTS, grants=200)


async def test_memory_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_memory(tmp_path, SHORT / 2, seed)
    show_and_check(outcome, capsys, faults=MEMORY_FAULTS, grants=200)


@pytest.mark.chaos
@pytest.mark.timeout(LONG + 300)
@pytest.mark.parametrize("store", ["sqlite", "postgres", "memory"])
async def test_store_keeps_its_promises_for_long(
    tmp_path: Path, seed: int, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, faults = {
        "sqlite": (run_sqlite, SQLITE_FAULTS),
        "postgres": (run_postgres, POSTGRES_FAULTS),
        "memory": (run_memory, MEMORY_FAULTS),
    }[store]
    outcome = await run(tmp_path, LONG, seed)
    show_and_check(outcome, capsys, faults=faults, grants=int(LONG * 10))


# -- would the test notice? --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "noticed"),
    [
        ("no exclusion", {"overlaps"}),
        ("lost places", {"FIFO inversions"}),
        ("same fence", {"fences going back"}),
        ("falling fence", {"fences going back", "writes of live holders refused"}),
    ],
)
async def test_a_broken_store_is_noticed(tmp_path: Path, broken: str, noticed: set[str]) -> None:
    outcome = await run_memory(tmp_path, 1.0, 1, acts={}, sabotage=broken)
    assert noticed <= {name for name, found in outcome.verdict.violations.items() if found}, outcome.table()


async def test_holders_that_do_not_stop_are_noticed(tmp_path: Path) -> None:
    outcome = await run_memory(tmp_path, 1.5, 1, acts={"force": 1}, sabotage=DEAF, slow=1.0)
    assert outcome.verdict.overlaps, outcome.table()


async def test_a_store_that_grants_to_everyone_is_noticed_across_processes(tmp_path: Path) -> None:
    outcome = await run_sqlite(tmp_path, 0.5, 1, processes=2, calm=True, sabotage="no exclusion")
    assert outcome.verdict.overlaps, outcome.table()


def show_and_check(outcome: Outcome, capsys: pytest.CaptureFixture[str], *, faults: set[str], grants: int) -> None:
    with capsys.disabled():
        print(outcome.table())
    assert outcome.verdict.clean, outcome.table()
    assert {kind for kind in faults if not outcome.fired[kind]} == set()
    assert outcome.verdict.counts["grants"] >= grants
    assert outcome.verdict.counts["hand-offs to waiters"] >= grants / 4
