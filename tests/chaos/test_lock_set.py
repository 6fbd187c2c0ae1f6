"""The lock-set test: whatever is killed, paused, cut or restarted, a key has one holder and its queue is kept.

Short here (`make test-full`), ten minutes and more per store in `make chaos` (`INTERLOCK_CHAOS_SECONDS`). A failure
prints the seed; `INTERLOCK_CHAOS_SEED` runs the same plan of faults again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.chaos.places import FAULTS
from tests.chaos.runs import run_memory, run_postgres, run_redis, run_sqlite
from tests.chaos.sabotage import DEAF

if TYPE_CHECKING:
    from pathlib import Path

SHORT = 12.0
LONG = float(os.environ.get("INTERLOCK_CHAOS_SECONDS", "600"))

MEMORY_FAULTS = {"cancelled attempts", "forced releases", "closed and opened anew", "loop held up"}


def enough(grants: int) -> dict[str, int]:
    return {"grants": grants, "hand-offs to waiters": grants // 4}


@pytest.mark.full
async def test_sqlite_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_sqlite(tmp_path, SHORT, seed, grants=200)
    outcome.show_and_check(capsys, FAULTS["sqlite"], **enough(200))


@pytest.mark.full
async def test_postgres_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_postgres(tmp_path, SHORT, seed, grants=200)
    outcome.show_and_check(capsys, FAULTS["postgres"], **enough(200))


@pytest.mark.full
async def test_redis_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_redis(tmp_path, SHORT / 2, seed, grants=100, scale=0.5, session_ttl=2.0)
    outcome.show_and_check(capsys, FAULTS["redis"], **enough(100))


@pytest.mark.full
async def test_fences_protect_what_a_redis_that_forgets_grants_twice(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_redis(tmp_path, SHORT / 2, seed, grants=100, flush=True, scale=0.3, session_ttl=2.0)
    outcome.show_and_check(capsys, FAULTS["forgetful redis"], **enough(100))


@pytest.mark.full
async def test_memory_keeps_its_promises_under_faults(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_memory(tmp_path, SHORT / 2, seed)
    outcome.show_and_check(capsys, MEMORY_FAULTS, **enough(200))


@pytest.mark.chaos
@pytest.mark.timeout(LONG + 300)
@pytest.mark.parametrize("store", ["sqlite", "postgres", "redis", "memory"])
async def test_store_keeps_its_promises_for_long(
    tmp_path: Path, seed: int, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, faults = {
        "sqlite": (run_sqlite, FAULTS["sqlite"]),
        "postgres": (run_postgres, FAULTS["postgres"]),
        "redis": (run_redis, FAULTS["redis"]),
        "memory": (run_memory, MEMORY_FAULTS),
    }[store]
    outcome = await run(tmp_path, LONG, seed)
    outcome.show_and_check(capsys, faults, **enough(int(LONG * 10)))


@pytest.mark.chaos
@pytest.mark.timeout(LONG + 300)
async def test_fences_protect_for_long_what_a_redis_that_forgets_grants_twice(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_redis(tmp_path, LONG / 3, seed, flush=True)
    outcome.show_and_check(capsys, FAULTS["forgetful redis"], **enough(int(LONG)))


# -- would the test notice? --------------------------------------------------------------------------------------------


@pytest.mark.full
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
    assert noticed <= outcome.noticed, outcome.table()


@pytest.mark.full
async def test_holders_that_do_not_stop_are_noticed(tmp_path: Path) -> None:
    outcome = await run_memory(tmp_path, 1.5, 1, acts={"force": 1}, sabotage=DEAF, slow=1.0)
    assert "overlaps" in outcome.noticed, outcome.table()


@pytest.mark.full
async def test_a_store_that_grants_to_everyone_is_noticed_across_processes(tmp_path: Path) -> None:
    outcome = await run_sqlite(tmp_path, 0.5, 1, processes=2, calm=True, sabotage="no exclusion")
    assert "overlaps" in outcome.noticed, outcome.table()
