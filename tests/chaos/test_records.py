"""Records under faults: every change is made once, with one entry, while processes and servers are killed or paused.

Each process keeps a log of its own. What it acknowledged must have an entry, what was refused must have none, and for
what was under way when it was killed the journal decides. Sealers run all the time. The figures of the long form are
those of the project's promise: 8 processes with 1,000 increments each, on 10 records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.nemesis import QUICK, Pace
from tests.chaos.places import FAULTS, PROCESSES
from tests.chaos.record_runs import Change, Entry, judge_records, run_records
from tests.chaos.record_worker import Counted

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_records_hold_under_faults(
    tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = await run_records(
        kind, tmp_path, seed, pace=QUICK, processes=4, increments=100, seconds=200, scale=0.3, session_ttl=2.0
    )
    server = {"server restart"} if kind == "postgres" else set()
    outcome.show_and_check(capsys, PROCESSES | server, acknowledged_increments=400)


@pytest.mark.chaos
@pytest.mark.timeout(2000)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_records_hold_for_long(tmp_path: Path, seed: int, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = await run_records(
        kind, tmp_path, seed, pace=Pace((0.1, 1.0), 1.5), processes=8, increments=1000, seconds=1500
    )
    outcome.show_and_check(capsys, FAULTS[kind], acknowledged_increments=8000)


# -- would the test notice? --------------------------------------------------------------------------------------------


def _entry(number: int, change: str, action: str, before: dict[str, object], after: dict[str, object]) -> Entry:
    return Entry(number, change, f"record.{action}", "r0", number - 1, number, before, {**after, "_write": change})


CHANGES = [
    Change("a", "edit", "r0", "done"),
    Change("b", "transition", "r0", "unknown"),
    Change("c", "correct", "r0", "done"),
]
ENTRIES = [
    Entry(0, "setup", "record.create", "r0", None, 0, None, {"_write": "setup"}),
    _entry(1, "a", "edit", {"count": 0}, {"count": 1}),
    _entry(2, "b", "transition", {"status": "new"}, {"status": "b"}),
    _entry(3, "c", "correct", {"mark": ""}, {"mark": "c"}),
]
RECORD = Counted(id="r0", version=3, status="b", count=1, mark="c")


def _noticed(changes: list[Change], entries: list[Entry], record: Counted = RECORD, corrections: int = 1) -> set[str]:
    return {name for name, found in judge_records(changes, entries, [(record, corrections)]).items() if found}


def test_a_good_history_is_clean() -> None:
    assert _noticed(CHANGES, ENTRIES) == set()
    assert (
        _noticed([*CHANGES, Change("d", "edit", "r0", "refused"), Change("e", "edit", "r0", "unknown")], ENTRIES)
        == set()
    )


def test_a_bad_history_is_noticed() -> None:
    again = _entry(4, "a", "edit", {"count": 1}, {"count": 2})
    two = RECORD.model_copy(update={"version": 4, "count": 2})
    assert "made twice" in _noticed(CHANGES, [*ENTRIES, again], two)
    assert "made twice" in _noticed(
        [*CHANGES, Change("d", "edit", "r0", "done")], [*ENTRIES, again._replace(change="d")], two
    )
    assert "acknowledged without an entry" in _noticed([*CHANGES, Change("d", "edit", "r0", "done")], ENTRIES)
    assert "refused with an entry" in _noticed([CHANGES[0]._replace(end="refused"), *CHANGES[1:]], ENTRIES)
    assert "entries without a change" in _noticed(CHANGES[1:], ENTRIES)
    assert "other than asked for" in _noticed([CHANGES[0]._replace(kind="update"), *CHANGES[1:]], ENTRIES)
    assert "versions with gaps" in _noticed(CHANGES, [*ENTRIES[:2], *ENTRIES[3:]])
    assert "wrong sums" in _noticed(CHANGES, ENTRIES, RECORD.model_copy(update={"count": 0}))
    assert "wrong sums" in _noticed(CHANGES, ENTRIES, RECORD.model_copy(update={"status": "x"}))
    assert "wrong sums" in _noticed(CHANGES, ENTRIES, corrections=0)
    lost = [ENTRIES[0], _entry(1, "a", "edit", {"count": 5}, {"count": 6}), *ENTRIES[2:]]
    assert "wrong steps" in _noticed(CHANGES, lost)
