"""A process shares a bounded number of connections to PostgreSQL, and works with fewer when the server has no more."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.backends.postgres import pool as pool_module
from interlock.backends.postgres.connection import OrderedConnection
from interlock.backends.postgres.errors import translated
from interlock.backends.postgres.pool import Pool
from interlock.backends.postgres.server import Server
from interlock.errors import InvalidArgumentError, StoreUnavailableError
from interlock.testing import clock
from interlock.testing.processes import Worker
from interlock.testing.servers import PostgresServer
from tests.backends.crowd import crowd_app
from tests.backends.outages import Events, events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

__all__ = ["events"]

LANES = 40
OURS = "select count(*) from pg_stat_activity where application_name = 'interlock' and datname = current_database()"


@pytest.fixture(scope="module")
def small_server() -> Iterator[PostgresServer]:
    """A server that has room for 20 connections, as few as the tests' own need not fear."""
    with PostgresServer(settings={"max_connections": "20"}) as server:
        yield server


@pytest.fixture
async def crowded(small_server: PostgresServer) -> AsyncIterator[str]:
    """The URL of an empty database on it."""
    small_server.create_database("crowd")
    yield small_server.url("crowd")
    small_server.drop_database("crowd")


@pytest.fixture
async def other(complete_postgres_url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(complete_postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
async def pool(complete_postgres_url: str) -> AsyncIterator[Pool]:
    pool = Pool(Server(complete_postgres_url), 3)
    yield pool
    await pool.close()


def soon(seconds: float = 20.0) -> float:
    return asyncio.get_running_loop().time() + seconds


class Refusing:
    """A server that refuses connections on request."""

    def __init__(self, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refuses = False
        self._connect = pool.server.connect
        monkeypatch.setattr(pool.server, "connect", self)

    async def __call__(self, wait: float) -> Any:
        if self.refuses:
            raise asyncpg.TooManyConnectionsError("sorry, too many clients already")
        return await self._connect(wait)


@pytest.mark.full
async def test_four_workers_finish_with_too_few_connections(crowded: str) -> None:
    jobs = 400
    app, job = crowd_app(crowded)
    async with app:
        await asyncio.gather(*(job.enqueue(lane=f"lane-{n % LANES}", number=n) for n in range(jobs)))
    other = await asyncpg.connect(crowded)
    workers = [Worker.spawn("tests.backends.crowd:work", (crowded, {})) for _ in range(4)]
    try:
        done, progress_at = 0, time.monotonic()
        while done < jobs:
            finished = await other.fetchval("select count(*) from interlock.job_history")
            if finished > done:
                done, progress_at = finished, time.monotonic()
            logs = "\n".join(worker.stderr for worker in workers)
            assert time.monotonic() - progress_at < 20, f"stopped at {done} of {jobs}:\n{logs}"
            await asyncio.sleep(0.05)
        states = await other.fetch("select state, count(*) from interlock.job_history group by state")
        assert [tuple(row) for row in states] == [(0, jobs)]
    finally:
        await other.close()
        for worker in workers:
            worker.kill()


async def test_a_process_opens_no_more_connections_than_the_setting_says(
    complete_postgres_url: str, other: Any
) -> None:
    async with Locks.from_url(complete_postgres_url, connections=5) as locks:
        limit, busy = 0, asyncio.gather(*(_work(locks, f"key-{number}") for number in range(40)))
        while not busy.done():
            limit = max(limit, await other.fetchval(OURS))
        await busy
    assert limit == 5


@pytest.mark.parametrize("connections", [3, 1001, 0, -1, 4.0, "8", True, None])
def test_a_number_of_connections_that_cannot_work_is_refused(connections: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Invalid connections .*\. Use a whole number from 4 to 1000\."):
        Settings(connections=connections)


async def test_when_the_server_has_no_more_operations_share_the_ones_there_are_in_order(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Refusing(pool, monkeypatch)
    order: list[int] = []
    async with pool.lent(soon()):
        server.refuses = True

        async def use(number: int) -> None:
            async with pool.lent(soon()) as connection:
                order.append(number)
                await connection.execute("select 1")

        waiting = [asyncio.create_task(use(number)) for number in range(10)]
        await clock.until(lambda: len(pool._waiters) == 10)
    await asyncio.gather(*waiting)
    assert order == list(range(10))
    assert (pool.open, pool.in_use) == (1, 0)


async def test_a_refusal_is_logged_once_and_says_what_to_set(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, events: Events
) -> None:
    server = Refusing(pool, monkeypatch)
    server.refuses = True
    lane = OrderedConnection(pool, 1.0)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match=r"too many clients already\. Raise max_connections .*setting"):
            await lane.fetch("select 1")
    (refused,) = events["connection_refused"]
    assert "max_connections" in refused.fields["remedy"]
    assert pool.refusals > 2

    server.refuses = False
    await lane.fetch("select 1")
    assert len(events["connection_refused_over"]) == 1


async def test_who_waits_is_served_when_the_server_has_room_again(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Refusing(pool, monkeypatch)
    server.refuses = True
    starved = asyncio.Event()
    pool.on_starved = starved.set
    work = asyncio.create_task(OrderedConnection(pool, 20.0).fetch("select 1"))
    await starved.wait()
    server.refuses = False
    assert list(await work) == [(1,)]


async def test_idle_connections_are_closed_except_one(pool: Pool, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.05)
    async with pool.lent(soon()), pool.lent(soon()), pool.lent(soon()):
        assert (pool.open, pool.in_use) == (3, 3)
    await clock.until(lambda: pool.open == 1)

    async def one() -> bool:
        return bool(await other.fetchval(OURS) == 1)

    await clock.until(one)


def test_on_uvloop_connections_that_are_idle_for_too_long_at_once_are_closed(
    complete_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvloop = pytest.importorskip("uvloop", reason="not on Windows")
    monkeypatch.setattr(pool_module, "_IDLE_SECONDS", 0.0)

    async def main() -> None:
        pool = Pool(Server(complete_postgres_url), 3)
        try:
            for _ in range(3):
                async with pool.lent(soon()), pool.lent(soon()), pool.lent(soon()):
                    pass
            await clock.until(lambda: pool.open == 1)
        finally:
            await pool.close()

    uvloop.run(main())


async def test_the_heartbeat_gets_the_place_of_an_idle_connection(pool: Pool) -> None:
    async with pool.lent(soon()), pool.lent(soon()):
        pass
    await asyncio.to_thread(pool.share)
    await clock.until(lambda: pool.open == 1)


async def test_those_who_keep_a_connection_leave_one_for_the_others(pool: Pool) -> None:
    async with pool.lent(soon(), hold=True), pool.lent(soon(), hold=True):
        with translated(), pytest.raises(StoreUnavailableError, match="2 of them by fenced transactions"):
            await asyncio.create_task(_keep(pool, soon(0.2)))
        assert list(await OrderedConnection(pool, 20.0).fetch("select 1")) == [(1,)]


async def test_who_keeps_all_connections_and_wants_another_is_told_at_once(pool: Pool) -> None:
    async with pool.lent(soon(), hold=True), pool.lent(soon(), hold=True):
        with pytest.raises(StoreUnavailableError, match="wait for another one"):
            await _keep(pool, soon(3600))


async def test_two_who_keep_one_each_and_want_another_do_not_wait_for_each_other(pool: Pool) -> None:
    both = asyncio.Barrier(2)

    async def nested() -> None:
        async with pool.lent(soon(), hold=True):
            await both.wait()
            await _keep(pool, soon(3600))

    ended = await asyncio.gather(nested(), nested(), return_exceptions=True)
    assert sorted(type(end) for end in ended if end is not None) == [StoreUnavailableError]
    assert pool.in_use == 0


async def test_a_caller_that_goes_away_while_it_waits_takes_no_connection_with_it(pool: Pool) -> None:
    async with pool.lent(soon()), pool.lent(soon()), pool.lent(soon()):
        waiting = [asyncio.create_task(_keep(pool, soon(), hold=False)) for _ in range(3)]
        await clock.until(lambda: len(pool._waiters) == 3)
        waiting[0].cancel()
    waiting[1].cancel()  # it has been given one, and has not seen it
    await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True, False]
    assert (pool.open - pool.in_use, pool.in_use) == (pool.open, 0)


async def test_a_fenced_transaction_leaves_nothing_to_the_next_user_of_its_connection(
    complete_postgres_url: str,
) -> None:
    seen = "select current_setting('search_path'), current_setting('lock_timeout'), pg_is_in_recovery()"
    async with Locks.from_url(complete_postgres_url, connections=4) as locks, locks.acquire("key") as lease:
        async with lease.fenced() as transaction:
            before = await transaction.fetch(seen)
        async with lease.fenced() as transaction:
            await transaction.execute("set search_path = nowhere")
            await transaction.execute("set lock_timeout = 1")
            await transaction.execute("create temporary table job (id integer)")
            await transaction.execute("select pg_advisory_lock(1)")
        async with lease.fenced() as transaction:
            assert await transaction.fetch(seen) == before
            assert await transaction.fetch("select to_regclass('pg_temp.job')") == [(None,)]
            assert await transaction.fetch("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]


async def _work(locks: Locks, key: str) -> None:
    for _ in range(3):
        async with locks.acquire(key, wait=60) as lease, lease.fenced() as transaction:
            await transaction.execute("select pg_sleep(0.01)")


async def _keep(pool: Pool, give_up: float, *, hold: bool = True) -> None:
    async with pool.lent(give_up, hold=hold):
        pass


async def test_a_statement_timeout_of_the_role_stops_no_work(crowded: str) -> None:
    other = await asyncpg.connect(crowded)
    await other.execute("create role hasty superuser login; alter role hasty set statement_timeout = 1")
    try:
        app, job = crowd_app(crowded.replace("postgres@", "hasty@"))
        async with app:
            handles = [await job.enqueue(lane=f"lane-{number}", number=number) for number in range(10)]
            async with app.worker(concurrency=5):
                for handle in handles:
                    await handle.result(wait=20)
    finally:
        await other.execute("drop owned by hasty cascade; drop role hasty")
        await other.close()


async def test_a_statement_timeout_in_the_url_holds_and_its_errors_say_so(complete_postgres_url: str) -> None:
    pool = Pool(Server(f"{complete_postgres_url}?statement_timeout=50"), 1)
    with pytest.raises(StoreUnavailableError, match=r"statement timeout\. Raise statement_timeout in the URL"):
        await OrderedConnection(pool, 20.0).fetch("select pg_sleep(60)")
    await pool.close()
