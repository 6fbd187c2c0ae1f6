"""kill -9 at any point of an operation: every change has exactly one entry, and every entry its change."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.settings import Settings
from interlock.testing.processes import Worker
from tests.journal.subjects import changes_and_entries, prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from interlock.ports.store import Store

SHORT, LONG = (1, 8, 10), (10, 30, 20)
"""How many times, how many subjects for each operation, and how many operators are killed."""
REDIS_SHORT, REDIS_LONG = (1, 80, 10), (10, 160, 20)
"""On Redis there are two operations, which take less time: with few subjects most operators would end before a kill."""


async def _kill_operators(
    url: str, journal_url: str | None, store: Store, journal: Store, seed: int, length: tuple[int, int, int], **how: Any
) -> dict[tuple[str, str], list[int]]:
    """Kill operators, and return the numbers of changes and entries for every operation and subject."""
    _, count, rounds = length
    subjects = await prepare(store, count)
    args = (url, journal_url, subjects, seed, rounds, *how.values())
    async with Worker.spawn("tests.journal.operator:run_rounds", args) as operators:
        killed = (await operators.wait_for("killed", timeout=120))["count"]
    assert killed >= rounds // 4, "the operators were killed too late"
    return await changes_and_entries(store, journal, subjects)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = from_url(url, settings=Settings())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/interlock.db"
    return str(request.getfixturevalue("complete_postgres_url"))


async def _hold_on_one_store(url: str, seed: int, length: tuple[int, int, int]) -> None:
    async with _opened(url) as store:
        counts = await _kill_operators(url, None, store, store, seed, length)
        assert {subject: both for subject, both in counts.items() if both[0] != both[1] or both[0] > 1} == {}
        assert any(changes for changes, _ in counts.values())


async def _hold_with_redis(redis_url: str, journal_url: str, seed: int, length: tuple[int, int, int]) -> None:
    async with _opened(redis_url) as store, _opened(journal_url) as journal:
        counts = await _kill_operators(redis_url, journal_url, store, journal, seed, length)
        assert {subject: both for subject, both in counts.items() if both[0] > both[1]} == {}
        assert any(changes for changes, _ in counts.values())


async def test_an_operator_that_is_killed_leaves_a_change_and_its_entry_or_neither(url: str) -> None:
    await _hold_on_one_store(url, 7, SHORT)


async def test_no_change_on_redis_is_without_an_entry_when_operators_are_killed(
    interlock_redis_url: str, tmp_path: Path
) -> None:
    await _hold_with_redis(interlock_redis_url, f"sqlite:///{tmp_path}/journal.db", 7, REDIS_SHORT)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(LONG[0]))
async def test_many_operators_are_killed(url: str, seed: int) -> None:
    await _hold_on_one_store(url, seed, LONG)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(LONG[0]))
async def test_many_operators_on_redis_are_killed(interlock_redis_url: str, tmp_path: Path, seed: int) -> None:
    await _hold_with_redis(interlock_redis_url, f"sqlite:///{tmp_path}/journal.db", seed, REDIS_LONG)


@pytest.mark.full
async def test_an_entry_in_a_transaction_of_its_own_is_noticed(tmp_path: Path) -> None:
    """The planted bug: the store writes the entry after the change, as a wrapper around it would."""
    url = f"sqlite:///{tmp_path}/interlock.db"
    async with _opened(url) as store:
        counts = await _kill_operators(url, None, store, store, 7, LONG, planted=True)
        assert any(changes > entries for changes, entries in counts.values())
