"""Workers vacuum the tables that each fetch reads: what finished jobs leave there does not slow down the next fetch."""

from __future__ import annotations

import logging
import math
import uuid
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import App
from interlock.backends import from_url
from interlock.settings import Settings
from interlock.testing.clock import until
from tests.backends.test_postgres_job_plans import FETCH, JOBS, LOWEST, READY, connection, pages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["connection"]

SCANNED = ["job_slot_freed", "job_scheduled", "job_ready", "job_signal", "job_limit_wait"]
LEFT = "select coalesce(max(pg_stat_get_dead_tuples(to_regclass('interlock.' || t))), 0) from unnest($1::text[]) t"


async def leave_dead_rows(connection: Any, count: int = 60_000) -> None:
    """Leave the dead index entries of so many jobs, on a server that does not vacuum by itself."""
    for table in SCANNED:
        await connection.execute(f"alter table interlock.{table} set (autovacuum_enabled = off)")
    await connection.execute(READY, 1, count)
    await connection.execute(
        "insert into interlock.job_signal select 'default', n, 'default/l' || n from generate_series(1, $1::bigint) n",
        count,
    )
    await connection.execute("delete from interlock.job_ready")
    await connection.execute("delete from interlock.job_signal")
    await connection.execute("select pg_stat_force_next_flush()")
    await connection.execute("select 1")


async def fetch_pages(connection: Any, first: int) -> int:
    """Pages that a fetch of 100 jobs touches; the fetch before it has marked the dead entries as such."""
    await connection.execute(JOBS, first, first + 299, None)
    await connection.execute(READY, first, first + 299)
    await connection.fetch(FETCH, LOWEST)
    return await pages(connection, FETCH, LOWEST)


async def test_a_worker_keeps_fetches_short_where_autovacuum_does_not_come(
    connection: Any, complete_postgres_url: str
) -> None:
    fresh = await fetch_pages(connection, 100_001)
    await leave_dead_rows(connection)
    slow = await fetch_pages(connection, 200_001)
    app = App(complete_postgres_url, namespace="other")

    @app.job()
    async def nothing() -> None: ...

    async def vacuumed() -> bool:
        return int(await connection.fetchval(LEFT, SCANNED)) < 5000

    async with app, app.worker():
        await until(vacuumed, within=60)
    quick = await fetch_pages(connection, 300_001)

    assert slow > fresh + 500  # otherwise this test shows nothing
    assert quick < fresh + 200, (fresh, slow, quick)


async def test_it_does_not_vacuum_what_needs_no_vacuum(connection: Any, complete_postgres_url: str) -> None:
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    await leave_dead_rows(connection, 1000)

    assert await store.jobs.vacuum() < math.inf

    assert int(await connection.fetchval(LEFT, SCANNED)) == 1000
    await store.close()


async def test_dead_rows_that_a_transaction_still_sees_are_tried_less_and_less_often(
    connection: Any, complete_postgres_url: str
) -> None:
    store = from_url(complete_postgres_url, settings=Settings())
    await store.open()
    reader = await asyncpg.connect(complete_postgres_url)
    transaction = reader.transaction(isolation="repeatable_read")
    await transaction.start()
    await reader.fetchval("select count(*) from interlock.job")
    await leave_dead_rows(connection, 6000)

    pauses = [await store.jobs.vacuum() for _ in range(7)]
    await transaction.rollback()
    await store.jobs.vacuum()

    assert pauses[0] >= 4
    assert pauses[-1] >= 60
    assert int(await connection.fetchval(LEFT, SCANNED)) < 5000
    await reader.close()
    await store.close()


@pytest.fixture
async def clerk(connection: Any) -> AsyncIterator[str]:
    """A role that may do what workers do, and owns nothing."""
    name = f"clerk_{uuid.uuid4().hex[:8]}"
    await connection.execute(f"create role {name} login")
    await connection.execute(f"grant usage on schema interlock to {name}")
    await connection.execute(f"grant select, insert, update, delete on all tables in schema interlock to {name}")
    yield name
    await connection.execute(f"drop owned by {name}")
    await connection.execute(f"drop role {name}")


async def test_a_worker_that_may_not_vacuum_says_so_once_and_may_be_allowed_to(
    connection: Any, complete_postgres_url: str, clerk: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = from_url(complete_postgres_url.replace("postgres@", f"{clerk}@"), settings=Settings())
    await store.open()
    await leave_dead_rows(connection, 6000)

    pauses = [await store.jobs.vacuum() for _ in range(2)]

    assert pauses == [60, 60]
    told = [record for record in caplog.records if getattr(record, "event", "") == "job_vacuum_not_allowed"]
    assert [record.levelno for record in told] == [logging.WARNING]
    assert told[0].fields["tables"] == "job_ready,job_signal"  # type: ignore[attr-defined]
    if connection.get_server_version() >= (17,):
        await connection.execute(f"grant maintain on interlock.job_ready, interlock.job_signal to {clerk}")
        await store.jobs.vacuum()
        assert int(await connection.fetchval(LEFT, SCANNED)) < 5000
    await store.close()
