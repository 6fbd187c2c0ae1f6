"""Whatever someone changes in a sealed journal is found and named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from interlock.journal import ProblemKind
from interlock.journal.hashing import draft_seal, seal_hash
from interlock.journal.sealer import seal_all
from interlock.ports.journal import ENTRY_COLUMNS, JournalEntry
from tests.journal.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from interlock.journal import VerificationReport

CHANGED, MISSING, ADDED = ProblemKind.ENTRY_CHANGED, ProblemKind.ENTRY_MISSING, ProblemKind.ENTRY_ADDED
SEAL_CHANGED, SEAL_MISSING = ProblemKind.SEAL_CHANGED, ProblemKind.SEAL_MISSING
NUMBERS = {"at", "from_version", "to_version", "cause_event", "cause_job", "cause_fence"}
SEAL_COLUMNS = ("sealed_at", "size", "first_id", "last_id", "newest_at")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of every kind that has a journal."""
    if request.param == "postgres":
        return str(request.getfixturevalue("complete_postgres_url"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/interlock.db"


def found(report: VerificationReport) -> list[tuple[ProblemKind, int | None, int | None]]:
    """What a verification found, without the words."""
    assert report.problem_count == len(report.problems)
    return [problem[:3] for problem in report.problems]


def test_every_column_is_covered() -> None:
    assert {*ENTRY_COLUMNS} - {"namespace"} == {*JournalEntry._fields} - {"batch"}


@pytest.mark.parametrize("column", [column for column in ENTRY_COLUMNS if column not in {"id", "namespace"}])
async def test_a_change_in_any_column_is_found(url: str, column: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(5, 2)
        value = f"{column} + 1" if column in NUMBERS else "'{\"a\":1}'"
        await ledger.tamper(f"update interlock.journal set {column} = {value} where id = {ids[2]}")
        assert found(await ledger.verify()) == [(CHANGED, 2, ids[2])]


@pytest.mark.parametrize(
    "column", ["from_version", "to_version", "before", "after", "cause_event", "cause_job", "cause_fence"]
)
async def test_a_value_that_is_removed_is_found(url: str, column: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(3, 2)
        await ledger.tamper(f"update interlock.journal set {column} = null where id = {ids[0]}")
        assert found(await ledger.verify()) == [(CHANGED, 1, ids[0])]


async def test_an_entry_moved_to_another_namespace_is_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(4, 2)
        await ledger.tamper(f"update interlock.journal set namespace = 'other' where id = {ids[1]}")
        assert found(await ledger.verify()) == [(MISSING, 1, ids[1])]


async def test_a_removed_entry_is_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(5, 2)
        await ledger.tamper(f"delete from interlock.journal where id in ({ids[1]}, {ids[4]})")
        report = await ledger.verify()
        assert found(report) == [(MISSING, 1, ids[1]), (MISSING, 3, ids[4])]
        assert report.problems[0].message == f"Entry {ids[1]} of batch 1 is missing."


async def test_an_entry_inserted_into_a_batch_is_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(5, 2)
        (new,) = await ledger.add(1)
        await ledger.tamper(f"update interlock.journal set batch = 2 where id = {new}")
        assert found(await ledger.verify()) == [(ADDED, 2, new)]


async def test_an_entry_in_a_batch_without_a_seal_is_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(5, 2)
        (new,) = await ledger.add(1)
        for batch in (0, 99):
            await ledger.tamper(f"update interlock.journal set batch = {batch} where id = {new}")
            assert found(await ledger.verify()) == [(ADDED, None, new)]


async def test_entries_that_swap_their_order_are_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(4, 2)
        await ledger.tamper(
            "update interlock.journal set subject_key = case subject_key when 'k0' then 'k1' else 'k0' end"
            f" where id in ({ids[0]}, {ids[1]})"
        )
        assert found(await ledger.verify()) == [(CHANGED, 1, ids[0]), (CHANGED, 1, ids[1])]


async def test_entries_that_swap_their_batches_are_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(4, 2)
        await ledger.tamper(f"update interlock.journal set batch = 3 - batch where id in ({ids[0]}, {ids[3]})")
        assert found(await ledger.verify()) == [
            (MISSING, 1, ids[0]),
            (ADDED, 1, ids[3]),
            (ADDED, 2, ids[0]),
            (MISSING, 2, ids[3]),
        ]


@pytest.mark.parametrize("batch", [1, 2])
async def test_a_removed_seal_is_found(url: str, batch: int) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(6, 2)
        await ledger.tamper(f"delete from interlock.journal_seal where batch = {batch}")
        first = ids[2 * batch - 2]
        assert found(await ledger.verify()) == [
            (SEAL_MISSING, batch, None),
            (ADDED, None, first),
            (ADDED, None, first + 1),
        ]


@pytest.mark.parametrize("column", SEAL_COLUMNS)
async def test_a_changed_seal_is_found(url: str, column: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(6, 2)
        await ledger.tamper(f"update interlock.journal_seal set {column} = {column} + 1 where batch = 2")
        assert found(await ledger.verify()) == [(SEAL_CHANGED, 2, None)]


@pytest.mark.parametrize("column", ["previous", "root", "hash", "leaves"])
async def test_a_changed_hash_is_found(url: str, column: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(6, 2)
        zeros = "'\\x00'" if ledger.postgres else "x'00'"
        await ledger.tamper(f"update interlock.journal_seal set {column} = {zeros} where batch = 2")
        problems = found(await ledger.verify())
        assert set(problems) == {(SEAL_CHANGED, 2, None)}


async def test_an_entry_and_its_leaf_changed_together_are_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(4, 2)
        await ledger.tamper(f"update interlock.journal set reason = 'other' where id = {ids[0]}")
        await _reseal(ledger, 1, whole=False)
        assert found(await ledger.verify()) == [(SEAL_CHANGED, 1, None)]


async def test_a_batch_that_is_sealed_anew_breaks_the_chain(url: str) -> None:
    async with open_ledger(url) as ledger:
        ids = await ledger.sealed(4, 2)
        await ledger.tamper(f"update interlock.journal set reason = 'other' where id = {ids[0]}")
        await _reseal(ledger, 1, whole=True)
        assert found(await ledger.verify()) == [(SEAL_CHANGED, 2, None)]


async def test_only_a_kept_head_shows_that_the_end_was_removed(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(6, 2)
        head = (await ledger.verify()).head
        await ledger.tamper("delete from interlock.journal where batch = 3")
        await ledger.tamper("delete from interlock.journal_seal where batch = 3")
        assert (await ledger.verify()).ok
        assert found(await ledger.verify(head)) == [(ProblemKind.HEAD_MISSING, None, None)]
        await ledger.sealed(2, 2)
        assert found(await ledger.verify(head)) == [(ProblemKind.HEAD_MISSING, None, None)]


async def test_only_a_kept_head_shows_that_all_was_sealed_anew(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(4, 2)
        head = (await ledger.verify()).head
        await ledger.tamper("delete from interlock.journal_seal")
        await ledger.tamper("update interlock.journal set batch = null, actor = 'eve'")
        await seal_all(ledger.journal, 2)
        assert (await ledger.verify()).ok
        assert found(await ledger.verify(head)) == [(ProblemKind.HEAD_MISSING, None, None)]


async def test_entries_removed_in_the_guise_of_retention_are_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(6, 2)
        await ledger.tamper("delete from interlock.journal where batch = 2")
        await ledger.tamper("update interlock.journal_seal set pruned_at = 1, leaves = null where batch = 2")
        assert found(await ledger.verify()) == [(MISSING, 2, None)]


async def test_entries_added_to_a_pruned_batch_are_found(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(4, 2)
        assert await ledger.journal.prune(-10.0, limit=2) == 2
        (new,) = await ledger.add(1)
        await ledger.tamper(f"update interlock.journal set batch = 1 where id = {new}")
        assert found(await ledger.verify()) == [(ADDED, 1, new)]


@pytest.mark.parametrize("value", ["x'ff'", "cast(x'ff' as text)", "1.5", "null || 'a'"])
async def test_values_that_sqlite_takes_in_any_column_are_found(tmp_path: Path, value: str) -> None:
    async with open_ledger(f"sqlite:///{tmp_path}/interlock.db") as ledger:
        ids = await ledger.sealed(2, 2)
        await ledger.tamper(f"update interlock_journal set before = {value} where id = {ids[0]}")
        assert found(await ledger.verify()) == [(CHANGED, 1, ids[0])]


async def test_many_problems_are_counted_and_the_first_are_named(url: str) -> None:
    async with open_ledger(url) as ledger:
        await ledger.sealed(150, 100)
        await ledger.tamper("update interlock.journal set actor = 'eve'")
        report = await ledger.verify()
        assert (report.ok, report.problem_count, len(report.problems)) == (False, 150, 100)


async def _reseal(ledger: Ledger, number: int, *, whole: bool) -> None:
    """Forge the leaves of a batch from its entries as they are now; if ``whole``, also its root and hash."""
    batch = (await ledger.journal.batches(number - 1, 1))[0]
    unsealed = (await ledger.journal.unsealed(1))._replace(head=None, rows=batch.rows)
    drafted = draft_seal(unsealed)
    forged = batch.seal._replace(root=drafted.root)
    forged = forged._replace(hash=seal_hash("default", forged))
    assert drafted.leaves is not None

    def blob(value: bytes) -> str:
        return f"'\\x{value.hex()}'" if ledger.postgres else f"x'{value.hex()}'"

    more = f", root = {blob(forged.root)}, hash = {blob(forged.hash)}" if whole else ""
    await ledger.tamper(
        f"update interlock.journal_seal set leaves = {blob(drafted.leaves)}{more} where batch = {number}"
    )
