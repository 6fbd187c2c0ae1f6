"""Writes that several callers share on SQLite: who goes together, and who does not suffer for whom."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING

from interlock.backends.sqlite.events import _sql
from interlock.backends.sqlite.file import DatabaseFile
from interlock.backends.sqlite.gathering import Gathering
from interlock.backends.sqlite.schema import SqliteMigrations
from interlock.clock import SystemClock
from interlock.errors import MisuseError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Store:
    """Remembers what was written together; ``go`` lets the next write end."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.error: Exception | None = None

    async def write(self, things: Sequence[int]) -> list[int]:
        self.writes.append(list(things))
        await self.go.wait()
        if self.error is not None:
            raise self.error
        if 13 in things:
            raise MisuseError("13 is not acceptable.")
        return [thing * 10 for thing in things]


async def test_what_comes_at_the_same_time_is_written_together() -> None:
    store = Store()
    gathering = Gathering(store.write)
    answers = await asyncio.gather(*(gathering.do([number]) for number in range(5)), gathering.do([7, 8]))
    assert answers == [[0], [10], [20], [30], [40], [70, 80]]
    assert store.writes == [[0, 1, 2, 3, 4, 7, 8]]


async def test_what_comes_during_a_write_goes_into_the_next() -> None:
    store = Store()
    gathering = Gathering(store.write)
    store.go.clear()
    first = asyncio.ensure_future(gathering.do([1]))
    while not store.writes:
        await asyncio.sleep(0)
    later = [asyncio.ensure_future(gathering.do([number])) for number in (2, 3)]
    await asyncio.sleep(0)
    store.go.set()
    assert await asyncio.gather(first, *later) == [[10], [20], [30]]
    assert store.writes == [[1], [2, 3]]


async def test_one_at_fault_does_not_take_the_others_with_it() -> None:
    store = Store()
    gathering = Gathering(store.write)
    answers = await asyncio.gather(*(gathering.do([number]) for number in (1, 13, 3)), return_exceptions=True)
    assert answers[0] == [10]
    assert isinstance(answers[1], MisuseError)
    assert answers[2] == [30]
    assert store.writes == [[1, 13, 3], [1], [13], [3]]


async def test_when_the_store_is_away_all_hear_of_it_and_it_is_asked_once() -> None:
    store = Store()
    store.error = StoreUnavailableError()
    gathering = Gathering(store.write)
    answers = await asyncio.gather(*(gathering.do([number]) for number in (1, 2)), return_exceptions=True)
    assert all(isinstance(answer, StoreUnavailableError) for answer in answers)
    assert len(store.writes) == 1
    store.error = None
    assert await gathering.do([3]) == [30]


async def test_what_was_handed_in_is_written_though_its_caller_was_cancelled() -> None:
    store = Store()
    gathering = Gathering(store.write)
    cancelled, other = (asyncio.ensure_future(gathering.do([number])) for number in (1, 2))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await other == [20]
    assert store.writes == [[1, 2]]
    store.go.clear()
    late = asyncio.ensure_future(gathering.do([3]))
    await asyncio.sleep(0)
    late.cancel()
    closing = asyncio.ensure_future(gathering.close())
    while len(store.writes) < 2:
        await asyncio.sleep(0)
    assert not closing.done()
    store.go.set()
    await closing
    assert store.writes[1:] == [[3]]


async def test_deliveries_are_looked_up_by_their_index_however_many_are_kept(tmp_path: Path) -> None:
    await SqliteMigrations(DatabaseFile(tmp_path / "a.db"), 5.0, SystemClock()).up()
    db = sqlite3.connect(tmp_path / "a.db")
    try:
        plan = [row[3] for row in db.execute(f"explain query plan {_sql.kept}", {"names": "[]", "namespace": "a"})]
    finally:
        db.close()
    assert plan[0].startswith("SCAN n")
    assert "interlock_event_by_delivery (namespace=? AND delivery=? AND source=?)" in plan[1]
