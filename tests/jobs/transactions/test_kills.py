"""A process that is killed while a transaction with a job is under way: the job exists if the transaction committed."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App
from interlock.jobs import JobState
from tests.databases import new_database
from tests.jobs.transactions.drivers import DRIVERS
from tests.jobs.transactions.killed import MOMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "docs" / "transactions.md"


@pytest.fixture(scope="module")
def left(
    interlock_postgres_server: Any, complete_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[str, str, JobState]]]:
    """What is left of all processes: driver, moment and state of each job."""
    for name in new_database(interlock_postgres_server, complete_database):
        urls = [interlock_postgres_server.url(name), f"sqlite:///{tmp_path_factory.mktemp('kills')}/bot.db"]
        asyncio.run(_prepare(urls))
        subprocess.run([sys.executable, "-m", "tests.jobs.transactions.killed", *urls], check=True, timeout=100)
        yield [job for url in urls for job in asyncio.run(_jobs(url))]


async def _prepare(urls: list[str]) -> None:
    for url in urls:
        async with App(url):
            pass  # creates the tables of SQLite
    connection = await asyncpg.connect(urls[0])
    await connection.execute("create table orders (id integer)")
    await connection.close()
    file = sqlite3.connect(urls[1].removeprefix("sqlite://"))
    file.execute("create table orders (id integer)")
    file.close()


async def _jobs(url: str) -> list[tuple[str, str, JobState]]:
    async with App(url) as app:
        views = [await app.jobs.get(view.id) for view in await app.jobs.list()]
        await app.jobs.enqueue("another")  # nothing is locked
    found = [(json.loads(view.arguments), view.state) for view in views]
    return [(arguments["driver"], arguments["moment"], state) for arguments, state in found]


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_killed_process_leaves_its_job_if_it_had_committed(
    left: list[tuple[str, str, JobState]], driver: str, moment: str
) -> None:
    found = [state for name, when, state in left if (name, when) == (driver, moment)]

    assert found == ([JobState.READY] if moment == "between commit and return" else [])


def test_the_table_in_the_docs_has_a_row_for_each_driver_and_a_column_for_each_moment() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    ]
    header = ["driver", "commit", "rollback", *(f"killed {moment}" for moment in MOMENTS)]
    start = rows.index(header) + 2
    table = rows[start : start + len(DRIVERS)]

    assert [row[0].replace("`", "") for row in table] == list(DRIVERS)
    assert {tuple(row[1:]) for row in table} == {("one job", "no job", "no job", "one job")}
    assert start + len(DRIVERS) == len(rows) or rows[start + len(DRIVERS)][1:] != table[0][1:]
