"""Events in SQLite: what the port does not say. Every statement finds its rows, whatever else there is."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from interlock.backends import from_url
from interlock.backends.sqlite import events
from interlock.backends.statements import read_migrations
from interlock.ports.events import NewEvent
from interlock.settings import Settings
from interlock.testing.conformance.jobs.driver import new_job

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    """All tables, without a file."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in read_migrations("interlock.backends.sqlite", "schema"):
            connection.executescript(migration.sql)
        yield connection


def plan(db: sqlite3.Connection, statement: str) -> list[str]:
    """How SQLite goes about a statement."""
    values: Any = dict.fromkeys(set(re.findall(r":(\w+)", statement)), "[]")
    return [detail for *_, detail in db.execute(f"explain query plan {statement}", values)]


def test_every_statement_is_used() -> None:
    code = Path(events.__file__).read_text("utf-8")
    assert [name for name in events._sql.names if f"_sql.{name}" not in code] == []


@pytest.mark.parametrize("name", sorted(events._sql.names))
def test_a_statement_finds_its_rows_by_an_index_and_in_order(db: sqlite3.Connection, name: str) -> None:
    details = plan(db, getattr(events._sql, name))

    scans = [detail for detail in details if detail.startswith("SCAN") and "VIRTUAL TABLE" not in detail]
    assert scans == [], "\n".join(details)
    assert not any("AUTOMATIC" in detail for detail in details), "\n".join(details)
    # Of one delivery there are as many as there are sources; those may be sorted.
    assert name == "list_by_delivery" or not any("TEMP B-TREE" in detail for detail in details), "\n".join(details)


async def test_what_comes_together_is_committed_together(tmp_path: Path) -> None:
    store = from_url(f"sqlite:///{tmp_path}/interlock.db", settings=Settings())
    await store.open()
    numbers = iter(await store.jobs.ids(200))
    made = [
        NewEvent(next(numbers), "src", f"d{n}", "push", "", "{}", 60.0, None, None, (new_job(next(numbers)),))
        for n in range(50)
    ]
    with closing(sqlite3.connect(tmp_path / "interlock.db")) as other:
        (before,) = other.execute("pragma data_version").fetchone()
        commits = 0
        work = asyncio.gather(*(store.events.accept([event]) for event in made))
        while not work.done():
            (seen,) = other.execute("pragma data_version").fetchone()
            commits += seen != before
            before = seen
            await asyncio.sleep(0)
        answers = await work
    await store.close()

    assert [kept for (kept,) in answers] == [event.id for event in made]
    assert commits <= 10, "fifty deliveries took more than a few commits"


def test_deliveries_are_found_by_their_index_however_many_are_kept(db: sqlite3.Connection) -> None:
    first, second, *_ = plan(db, events._sql.known_deliveries)
    assert first.startswith("SCAN n")
    assert "interlock_event_by_delivery (namespace=? AND delivery=? AND source=?)" in second
