"""PostgreSQL that goes away: what only its connections, its listener and its transactions can suffer."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.backends.postgres import connection, reader
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.pool import Pool
from interlock.backends.postgres.reader import Reader
from interlock.backends.postgres.server import Server
from interlock.errors import LeaseLostError, StoreUnavailableError
from tests.backends.outages import (
    SHORT,
    SMALL,
    SOON,
    STORE_WAIT,
    Events,
    Outage,
    cut_off,
    listener_of,
    no_longer_than,
    until,
    vanish_in_a_fenced_transaction,
    when,
)

if TYPE_CHECKING:
    from interlock.testing.proxy import ThreadedFaultProxy

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def kind() -> str:
    return "postgres"


async def test_opening_is_bounded_when_the_store_goes_away_on_the_way(
    url: str, proxy: ThreadedFaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = asyncpg.connect
    connections = 0

    async def connect_and_cut_the_second(*args: Any, **options: Any) -> Any:
        nonlocal connections
        connection = await connect(*args, **options)
        connections += 1
        if connections == 2:
            proxy.blackhole()
        return connection

    monkeypatch.setattr(asyncpg, "connect", connect_and_cut_the_second)
    async with no_longer_than(STORE_WAIT + SMALL):
        with pytest.raises(StoreUnavailableError, match=r"not available: \w+"):
            await Locks.from_url(proxy.url(url), settings=SHORT).open()
    assert connections == 2


async def test_an_answer_that_came_while_the_event_loop_stood_still_is_heard(url: str) -> None:
    pool = Pool(Server(url), 1)
    here = OrderedConnection(pool, 0.3)
    ((connection,),) = await here.fetch("select pg_backend_pid()")
    for turns in range(1, 12):
        asking = asyncio.ensure_future(here.fetch("select pg_backend_pid()"))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.4)  # this is the point
        assert list(await asking) == [(connection,)]
    await here.close()
    await pool.close()


async def test_a_connection_that_ends_between_two_steps_of_the_driver_is_an_outage(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = asyncpg.Connection._get_statement

    async def prepare_and_end(connection: Any, *args: Any, **options: Any) -> Any:
        statement = await prepare(connection, *args, **options)
        connection.terminate()
        return statement

    async with Locks.from_url(url, settings=SHORT) as locks:
        async with locks.acquire("repo") as lease:
            with monkeypatch.context() as patch:
                patch.setattr(asyncpg.Connection, "_get_statement", prepare_and_end)
                with pytest.raises(StoreUnavailableError, match="connection was ended"):
                    await locks.list()
                with pytest.raises(StoreUnavailableError):
                    async with lease.fenced() as transaction:
                        await transaction.fetch("select 1")
        assert await locks.list() == []


async def test_closing_ends_also_while_the_listener_is_in_the_middle_of_something(
    url: str, proxy: ThreadedFaultProxy
) -> None:
    settings = Settings(session_ttl=30, store_wait=3, recheck_interval=0.5, stuck_work="report")
    locks = Locks.from_url(proxy.url(url), settings=settings)
    await locks.open()
    listener = listener_of(locks)
    await until(lambda: listener.works is True)
    proxy.delay(0.05)
    proxy.reset()
    connection = await asyncpg.connect(url)
    in_the_middle = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    deadline = time.monotonic() + SOON
    while not await connection.fetchval(in_the_middle):
        assert time.monotonic() < deadline, "it does not listen again"
    await connection.close()

    closing = asyncio.create_task(locks.close())
    await until(lambda: listener._task is None)  # it was told to stop
    cut_off(proxy)

    async with no_longer_than(settings.store_wait + SMALL):
        await closing


@when("killed", "blackhole", "reset")
async def test_a_fenced_transaction_ends_in_bounded_time(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=SHORT) as locks:
        lease = await locks.acquire("before")
        async with lease.fenced() as transaction:
            await transaction.execute("create table written (fence bigint)")
        await lease.release()

        async def write() -> None:
            async with locks.acquire("key") as lease, lease.fenced() as transaction:
                await transaction.execute("insert into written values ($1)", lease.fence)
                await outage.begin()
                await transaction.execute("insert into written values ($1)", lease.fence)

        async with no_longer_than(SHORT.session_ttl + SMALL):
            with pytest.raises((LeaseLostError, StoreUnavailableError)):
                await write()
        await outage.end()

        async with locks.acquire("key", wait=SOON) as lease, lease.fenced() as transaction:
            assert await transaction.fetch("select count(*) from written") == [(0,)]
    assert not events["work_overran_session"]


# -- a host that vanishes ----------------------------------------------------------------------------------------------


async def test_a_host_that_vanished_in_a_fenced_transaction_holds_its_key_no_longer_than_its_session(
    url: str, proxy: ThreadedFaultProxy
) -> None:
    async with Locks.from_url(url, settings=SHORT) as others, Locks.from_url(proxy.url(url), settings=SHORT) as locks:
        await vanish_in_a_fenced_transaction(locks, proxy, others)


async def test_a_host_that_vanished_in_a_pooled_transaction_leaves_none_behind(
    url: str, proxy: ThreadedFaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BEGIN", connection._BEGIN.replace("10s", "1s"))
    server = Server(proxy.url(url))
    server.pooled = True
    pool = Pool(server, 1)
    asking = OrderedConnection(pool, 1.0)
    await asking.fetch("select 1")
    fetch = asyncpg.Connection.fetch

    async def vanish_and_fetch(connection: Any, *args: Any) -> Any:
        proxy.blackhole()
        return await fetch(connection, *args)

    with monkeypatch.context() as patch:
        patch.setattr(asyncpg.Connection, "fetch", vanish_and_fetch)
        with pytest.raises(StoreUnavailableError):
            await asking.fetch("select 1")
    assert await transactions(url) <= 1

    await until(lambda: no_transaction(url), seconds=SOON)
    await asking.close()
    await pool.close()


async def test_a_host_that_vanished_in_a_snapshot_leaves_none_behind(
    url: str, proxy: ThreadedFaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_SETTINGS", reader._SETTINGS.replace("'10s'", "'1s'"))
    pool = Pool(Server(proxy.url(url)), 2)
    looking = Reader(pool, 1.0)

    async def vanish() -> None:
        async with looking.snapshot():
            await looking.fetch("select 1")
            assert await transactions(url) == 1
            proxy.blackhole()

    with pytest.raises(StoreUnavailableError):
        await vanish()

    await until(lambda: no_transaction(url), seconds=SOON)
    await looking.close()
    await pool.close()


async def test_both_ends_of_a_connection_look_whether_the_other_is_there(url: str) -> None:
    server = Server(url)
    connection = await server.connect(5.0)
    settings = ("idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_user_timeout")
    sock = connection._transport.get_extra_info("socket")

    assert [await connection.fetchval("select current_setting($1)", name) for name in settings] == [
        "10s",
        "10",
        "30000",
    ]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
    await connection.close()


async def transactions(url: str) -> int:
    """How many transactions of others are open and idle in the database."""
    connection = await asyncpg.connect(url)
    try:
        open_ones = (
            "select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'"
        )
        return int(await connection.fetchval(open_ones))
    finally:
        await connection.close()


async def no_transaction(url: str) -> bool:
    return await transactions(url) == 0
