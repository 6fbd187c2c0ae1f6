"""The example for Node.js in the documentation enqueues a job, with the driver that Node.js programs use."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock import App

if TYPE_CHECKING:
    from interlock.testing.servers import PostgresServer

pytestmark = pytest.mark.system

PAGE = Path(__file__).parents[2] / "docs" / "transactions.md"
PACKAGE = "pg@8.23.1"


def test_the_example_for_node_enqueues_a_job(debian_postgres: PostgresServer, database: str, tmp_path: Path) -> None:
    (example,) = re.findall(r"^```javascript\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "example.mjs").write_text(example)
    url = debian_postgres.url(database)
    asyncio.run(_prepare(url))
    quiet = ["--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
    subprocess.run(["npm", "install", *quiet, PACKAGE], cwd=tmp_path, check=True, timeout=120)
    done = subprocess.run(
        ["node", "example.mjs"],
        cwd=tmp_path,
        env=os.environ | {"DATABASE_URL": url},
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )

    assert asyncio.run(_order_and_job(url)) == (11, done.stdout.strip(), "send_invoice", "11", '{"order": 11}')


async def _prepare(url: str) -> None:
    async with App(url):
        pass  # sets up the schema
    connection = await asyncpg.connect(url)
    await connection.execute("create table orders (id integer primary key)")
    await connection.close()


async def _order_and_job(url: str) -> tuple[int, str, str, str, str]:
    connection = await asyncpg.connect(url)
    order = await connection.fetchval("select id from orders")
    await connection.close()
    async with App(url) as app:
        (listed,) = await app.jobs.list()
        view = await app.jobs.get(listed.id)
    return order, f"enqueued job {view.id}", view.name, view.lane, view.arguments
