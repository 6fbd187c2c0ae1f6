"""Records against a reference model, on every store, and with planted bugs that have to be found."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase

from interlock.backends.sqlite import records as sqlite_records
from interlock.backends.sqlite.records import SqliteRecords
from interlock.ports.records import Skipped, Written
from interlock.records import corrections, edit, recent, records
from interlock.records.edit import _restore
from interlock.records.fields import Codec
from tests.records.stateful import run_against_reference

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with nothing in it."""
    if request.param == "postgres":
        return str(request.getfixturevalue("complete_postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/interlock.db"


@pytest.fixture(autouse=True)
def _short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a record forget corrections soon, so that the journal has to be asked for them."""
    monkeypatch.setattr(corrections, "MAX_HISTORY", 2)


def test_any_sequence_of_operations_ends_as_in_the_reference(url: str) -> None:
    memory = url.startswith("memory")
    run_against_reference(url, examples=15 if memory else 5, steps=25, apps=1 if memory else 2)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_many_long_sequences_of_operations_end_as_in_the_reference(url: str) -> None:
    store = url.partition(":")[0]
    examples = {"memory": 600, "sqlite": 150}.get(store, 60)
    run_against_reference(url, examples=examples, steps=50, apps=1 if store == "memory" else 2, derandomize=False)


# -- planted bugs ------------------------------------------------------------------------------------------------------


def _ignore_fences(patch: pytest.MonkeyPatch) -> None:
    refusal = SqliteRecords._refusal
    patch.setattr(
        SqliteRecords,
        "_refusal",
        lambda self, db, change, state: refusal(self, db, change._replace(fence=None), state),
    )


def _ignore_uids(patch: pytest.MonkeyPatch) -> None:
    stored_of = Codec.stored_of
    patch.setattr(
        records.Codec,
        "stored_of",
        lambda self, record: None if _caller() == "compare_and_set" else stored_of(self, record),
    )


def _write_in_part(patch: pytest.MonkeyPatch) -> None:
    def write(self: Any, db: Any, changes: Any, leases: Any = ()) -> Any:
        states = [self._state(db, change) for change in changes]
        refusals = [self._refusal(db, change, state) for change, state in zip(changes, states, strict=True)]
        for change, state, refusal in zip(changes, states, refusals, strict=True):
            if refusal is None:
                self._make(db, change, state)
        return (
            [Skipped() if refusal is None else refusal for refusal in refusals]
            if any(refusals)
            else [Written((change.expected or -1) + 1, 0.0) for change in changes]
        )

    patch.setattr(SqliteRecords, "write_within", write)


def _keep_failed_inner_blocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(edit, "_restore", lambda record, state: None if _caller() == "__aexit__" else _restore(record, state))


def _forget_old_corrections(patch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        return None

    patch.setattr(records.Records, "_journaled", nothing)


def _leave_the_machine_out_of_edits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        edit.OpenRecord, "content", lambda self: self.codec.write_content(self.record, self.ref.id, self.history)
    )


def _miss_foreign_writes(patch: pytest.MonkeyPatch) -> None:
    refusal = SqliteRecords._refusal

    def lenient(self: Any, db: Any, change: Any, state: Any) -> Any:
        if state is not None and change.owner is not None and change.expected is not None:
            change = change._replace(expected=state.version)
        return refusal(self, db, change, state)

    patch.setattr(SqliteRecords, "_refusal", lenient)


def _keep_remembered_records(patch: pytest.MonkeyPatch) -> None:
    """A write that lost to another process is computed from the same old state for ever."""
    remember = recent.RecentRecords.remember
    patch.setattr(
        recent.RecentRecords,
        "remember",
        lambda self, key, stored: None if stored is not None and self.get(key) else remember(self, key, stored),
    )
    patch.setattr(SqliteRecords, "_refusal", _without_versions(SqliteRecords._refusal))


def _without_versions(refusal: Any) -> Any:
    def lenient(self: Any, db: Any, change: Any, state: Any) -> Any:
        if state is not None and change.expected is not None:
            change = change._replace(expected=state.version)
        return refusal(self, db, change, state)

    return lenient


def _drop_the_entries_of_deletes(patch: pytest.MonkeyPatch) -> None:
    add = sqlite_records.add_entry
    patch.setattr(
        sqlite_records,
        "add_entry",
        lambda db, namespace, now, entry: None if entry.to_version is None else add(db, namespace, now, entry),
    )


def _caller() -> str:
    return sys._getframe(2).f_code.co_name


PLANTED = {
    "fences are not compared": _ignore_fences,
    "a record that was created again counts as the old one": _ignore_uids,
    "a refused write of several is made in part": _write_in_part,
    "an inner block that failed is kept": _keep_failed_inner_blocks,
    "old corrections are not looked up in the journal": _forget_old_corrections,
    "edits are not checked by the machine": _leave_the_machine_out_of_edits,
    "a holder overwrites a foreign write": _miss_foreign_writes,
    "versions are not compared": _keep_remembered_records,
    "a delete has no entry": _drop_the_entries_of_deletes,
}


@pytest.mark.full
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_against_reference("memory://", examples=300, steps=40, apps=1, phases=[Phase.generate])
