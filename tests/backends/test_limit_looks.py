"""A look at a few limits reads those few, however many keys are in use; in SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from interlock.backends import from_url
from interlock.backends.postgres import queries as postgres_queries
from interlock.backends.sqlite.queries import LimitQueries
from interlock.settings import Settings
from tests.backends.test_postgres_job_plans import connection, pages

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["connection"]

KEYS = 20_000
FAR = 4102444800000000


async def test_a_look_at_ten_limits_touches_few_pages_of_postgresql(connection: Any) -> None:
    look = postgres_queries.LimitQueries().list
    await connection.execute(
        "insert into interlock.job_limit (namespace, key, shared)"
        " select 'default', 'key-' || n, true from generate_series(1, $1::integer) n",
        KEYS,
    )
    await connection.execute(
        "insert into interlock.limit_use"
        " select 'default', 'key-' || n, n, 's.' || n, 'p', 's', 1, 0, 0, 0, 0, true, 0, ''"
        " from generate_series(1, $1::integer) n",
        KEYS,
    )
    await connection.execute("analyze interlock.job_limit, interlock.limit_use")

    found = await connection.fetch(look, "default", None, 10, 0, None, "key-5")
    touched = await pages(connection, look, "default", None, 10, 0, None, "key-5")

    assert len(found) == 10
    assert [row["key"] for row in found] == sorted(row["key"] for row in found)
    assert touched < 250


async def test_a_look_at_ten_limits_takes_few_steps_of_sqlite(tmp_path: Path) -> None:
    store = from_url(f"sqlite:///{tmp_path}/i.db", settings=Settings())
    await store.open()
    await store.close()
    look = LimitQueries().limits_in_use
    steps = [0]

    def count() -> int:
        steps[0] += 1000
        return 0

    with closing(sqlite3.connect(tmp_path / "i.db")) as db:
        db.executemany(
            "insert into interlock_limit_start values ('default', ?, 0, ?, ?, 'o', 'p', 's', 'h', 7, 'x', 1, ?, 0)",
            [(f"key-{number:05}", number, FAR, FAR) for number in range(KEYS)],
        )
        db.set_progress_handler(count, 1000)
        values = {"namespace": "default", "after": "key-00007", "now": 1, "now_us": 1, "stale": 0, "limit": 10}
        found = [key for (key,) in db.execute(look, values)]

    assert found == [f"key-{number:05}" for number in range(8, 18)]
    assert steps[0] < 10_000
