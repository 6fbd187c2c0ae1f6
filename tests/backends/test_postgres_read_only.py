"""PostgreSQL that becomes read-only under its clients, as after a fail-over that left the address where it was."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import asyncpg
import pytest

from interlock import App, Locks, Settings
from tests.backends.outages import SHORT, SOON, Events, listener_of, take, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture(scope="module")
def kind() -> str:
    return "postgres"


@contextlib.asynccontextmanager
async def old_connections_read_only(url: str) -> AsyncIterator[None]:
    """Whoever is connected to the server finds it read-only. New connections lead to one that can be written to."""
    connection = await asyncpg.connect(url)
    await connection.execute("alter role postgres set default_transaction_read_only = off")
    await connection.execute("alter system set default_transaction_read_only = on")
    await connection.execute("select pg_reload_conf()")
    new = await asyncpg.connect(url)
    try:
        while await connection.fetchval("show default_transaction_read_only") != "on":
            pass
        assert await new.fetchval("show default_transaction_read_only") == "off"
        yield
    finally:
        await new.execute("alter system reset default_transaction_read_only")
        await new.execute("select pg_reload_conf()")
        await new.execute("alter role postgres reset default_transaction_read_only")
        await new.close()
        await connection.close()


async def test_connections_to_a_server_that_became_read_only_are_given_up(url: str, events: Events) -> None:
    async with (
        Locks.from_url(url, settings=SHORT) as locks,
        Locks.from_url(url, settings=SHORT) as others,
        locks.acquire("held", ttl=300) as lease,
    ):
        waiting = asyncio.create_task(take(others, "held", wait=30))
        await until(lambda: listener_of(locks).works and listener_of(others).works)
        listening = [listener_of(each)._connection for each in (locks, others)]
        async with old_connections_read_only(url):
            async with locks.acquire("other", wait=SOON) as other:
                assert other.fence > lease.fence
            await others.list()
            await until(lambda: all(connection.is_closed() for connection in listening))
            await until(lambda: listener_of(locks).works and listener_of(others).works)
            session = lease._session
            renewed = session.deadline
            await until(lambda: session.deadline > renewed + SHORT.session_ttl)  # by its own connection
            lease.ensure()
            await lease.release()
            async with await waiting as next_one:
                assert next_one.fence > lease.fence
    assert not events["session_lost"]


async def test_jobs_go_on_when_the_server_became_read_only(url: str) -> None:
    app = App(url, settings=Settings(session_ttl=30, store_wait=5, stuck_work="report"))
    ran: list[int] = []

    @app.job()
    async def note(number: int) -> None:
        ran.append(number)

    async with app, app.worker():
        await (await note.enqueue(number=1)).result(wait=SOON)
        async with old_connections_read_only(url):
            await (await note.enqueue(number=2)).result(wait=2 * SOON)
            async with app._jobs._store_client.store.snapshot():  # type: ignore[union-attr]
                pass
    assert ran == [1, 2]


async def test_a_server_that_is_read_only_is_waited_for_when_opening(url: str, events: Events) -> None:
    admin = await asyncpg.connect(url)
    await admin.execute("alter role postgres set default_transaction_read_only = on")
    locks = Locks.from_url(url, session_ttl=30, store_wait=20)
    opening = asyncio.create_task(locks.open())
    await until(lambda: events["store_unavailable"])
    await admin.execute("alter role postgres reset default_transaction_read_only")
    await opening
    async with locks.acquire("key") as lease:
        lease.ensure()
    await locks.close()
    await admin.close()
    (awaited,) = events["store_unavailable"]
    assert "read-only" in awaited.fields["error"]


# -- what a fail-over may have lost ------------------------------------------------------------------------------------


async def test_fences_and_ids_leap_when_the_timeline_has_changed(url: str) -> None:
    async with Locks.from_url(url, settings=SHORT) as locks:
        first = await locks.acquire("key")
        await first.release()
    admin = await asyncpg.connect(url)
    job = await admin.fetchval("select nextval('interlock.job_id')")
    await admin.execute("update interlock.timeline set number = number - 3")
    async with Locks.from_url(url, settings=SHORT) as locks, locks.acquire("key") as second:
        assert second.fence > first.fence + 3 * 2**32
    async with Locks.from_url(url, settings=SHORT) as locks, locks.acquire("key") as third:
        assert third.fence < second.fence + 2**32  # once for each change
    assert await admin.fetchval("select nextval('interlock.job_id')") > job + 3 * 2**32
    await admin.close()
