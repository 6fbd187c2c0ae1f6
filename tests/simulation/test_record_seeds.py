"""Many runs of changes of records, each with its own interleavings and faults: every change is made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends.sqlite.records import SqliteRecords
from interlock.records.engine import RecordEngine
from tests.simulation import seeds
from tests.simulation.planting import around, bugs
from tests.simulation.records import simulate
from tests.simulation.workload import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable

_BUGS, _breaks = bugs()


@_breaks("made twice", "a write whose answer was lost is not looked up")
def _forget_writes(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    patch.setattr(RecordEngine, "_find_write", nothing)


@_breaks("wrong steps", "versions are not compared")
def _overwrite(patch: pytest.MonkeyPatch) -> None:
    def lenient(refusal: Any, self: Any, db: Any, change: Any, state: Any) -> Any:
        if state is not None and change.expected is not None:
            change = change._replace(expected=state.version)
        return refusal(self, db, change, state)

    around(patch, SqliteRecords, "_refusal", lenient)


@_breaks("acknowledged without an entry", "an error of the store counts as made")
def _believe(patch: pytest.MonkeyPatch) -> None:
    async def found(*_: object) -> float:
        return 1.0

    patch.setattr(RecordEngine, "_find_write", found)


@seeds.many
@pytest.mark.parametrize("chunk", seeds.chunks(20, 600))
def test_every_change_of_a_record_is_made_once_for_seeds(chunk: range) -> None:
    outcomes, faults = seeds.run_all(simulate, chunk)

    # The runs were worth something: changes ended in every way, and things really went wrong.
    for kind in ("edit", "update", "correct", "transition"):
        assert {f"{kind}: done", f"{kind}: unknown"} <= set(outcomes)
    assert "edit: refused" in outcomes
    assert {"slow_reply", "refused", "failed_after", "reply_lost", "late", "message_lost"} <= set(faults)
    assert faults["paused"] > 0


@seeds.one
def test_every_change_of_a_record_is_made_once_for_the_seed_asked_for() -> None:
    seeds.replay(simulate)


@pytest.mark.full
@pytest.mark.parametrize("bug", _BUGS)
def test_a_bug_planted_in_records_is_found(
    bug: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("seeds", seeds.find_planted(_BUGS, bug, monkeypatch, simulate))


@pytest.mark.full
def test_a_seed_of_records_runs_the_same_way_for_any_hash_seed() -> None:
    seeds.same_whatever_the_hashes("tests.simulation.records", range(len(PROFILES)))
