"""``kill -9`` of a sealer, at any point: a batch is sealed as a whole or not at all, and the next sealer continues."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock.journal.sealer import seal_all
from tests.journal.ledger import Ledger, open_ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_WAITING = "select count(*) from pg_locks where not granted"


@contextlib.asynccontextmanager
async def sealer(url: str, point: str, line: bytes) -> AsyncIterator[None]:
    """A sealer that has come to a point; it is killed in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.journal.killed_sealer", url, point, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            while await process.stdout.readline() != line + b"\n":
                assert process.returncode is None
        yield
    finally:
        process.kill()
        await process.wait()


async def _check(ledger: Ledger, total: int) -> None:
    before = await ledger.verify()
    assert before.ok, before.problems
    assert before.entries + before.unsealed == total
    async with asyncio.timeout(20):
        while (await ledger.verify()).unsealed:
            await seal_all(ledger.journal, 2)
    after = await ledger.verify()
    assert (after.ok, after.entries) == (True, total), after.problems


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
async def test_a_sealer_that_is_killed_before_it_writes(
    request: pytest.FixtureRequest, tmp_path: Path, store: str
) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    if store == "postgres":
        url = str(request.getfixturevalue("complete_postgres_url"))
    async with open_ledger(url) as ledger:
        await ledger.add(5)
        async with sealer(url, "before", b"here"):
            pass
        await _check(ledger, 5)


async def test_a_sealer_that_is_killed_between_two_statements_of_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/interlock.db"
    async with open_ledger(url) as ledger:
        await ledger.add(5)
        async with sealer(url, "inside", b"here"):
            pass
        assert (await ledger.verify()).batches == 0, "nothing was committed"
        await _check(ledger, 5)


async def test_a_sealer_that_is_killed_while_postgres_works_for_it(complete_postgres_url: str) -> None:
    async with open_ledger(complete_postgres_url) as ledger:
        await ledger.add(5)
        connection = await asyncpg.connect(complete_postgres_url)
        try:
            async with connection.transaction():
                await connection.execute("select from interlock.journal for update")
                async with sealer(complete_postgres_url, "inside", b"going"), asyncio.timeout(30):
                    # The seal is written, and its entries are about to be.
                    while not await connection.fetchval(_WAITING):
                        await asyncio.sleep(0.001)
        finally:
            await connection.close()
        await _check(ledger, 5)
