"""Locks work through a pooler in transaction mode, which keeps messages from arriving, and say so."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import Locks, Settings
from interlock.errors import DeadlockError, LeaseLostError, MisuseError
from interlock.testing.lookup import get_or_none
from interlock.testing.processes import Barrier, Worker, receive_async, wait_at_barrier_async
from interlock.testing.proxy import ThreadedFaultProxy
from tests.backends.outages import vanish_in_a_fenced_transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock import Lease
    from interlock.testing.servers import PostgresServer
    from tests.system.pgbouncer import PgBouncer

pytestmark = pytest.mark.system

DEAF = "notifications_do_not_arrive"


@pytest.fixture
def pooled_url(pgbouncer: PgBouncer, database: str) -> str:
    return pgbouncer.url(database)


@pytest.fixture
def direct_url(debian_postgres: PostgresServer, database: str) -> str:
    return debian_postgres.url(database)


def count(caplog: pytest.LogCaptureFixture, event: str) -> int:
    return sum(getattr(record, "event", "") == event for record in caplog.records)


async def take(locks: Locks, key: str, **options: Any) -> Lease:
    """A lease without a block, as something that a task can be made of."""
    return await locks.acquire(key, **options)


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


async def queue_of(locks: Locks, key: str, length: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        view = await get_or_none(locks, key)
        if view is not None and len(view.waiters) == length:
            return
        assert time.monotonic() < deadline, f"{length} do not wait: {view}"
        await asyncio.sleep(0.005)


async def knows_whether_messages_arrive(locks: Locks) -> bool:
    listener: Any = locks._store_client.store.messages._listener  # type: ignore[attr-defined]
    await until(lambda: listener.works is not None)
    return bool(listener.works)


async def hand_overs(giver: Locks, taker: Locks, times: int) -> list[float]:
    """How long it takes, again and again, from one process's release to another one's grant."""
    took = []
    for _ in range(times):
        lease = await giver.acquire("key")
        waiter = asyncio.create_task(take(taker, "key"))
        await queue_of(giver, "key", 1)
        begun = time.monotonic()
        await lease.release()
        granted = await asyncio.wait_for(waiter, 20)
        took.append(time.monotonic() - begun)
        await granted.release()
    return took


def say(how: str, took: list[float], record_property: Callable[[str, object], None]) -> None:
    """Put the figures where a person (-s) and a report (--junitxml) see them."""
    figures = f"p50 {statistics.median(took) * 1000:.1f} ms, longest {max(took) * 1000:.1f} ms"
    record_property(f"hand-over with {how}", figures)
    print(f"\nhand-over through PgBouncer with {how}: {figures}")


# -- the lock surface ----------------------------------------------------------------------------------------------


async def test_a_pooler_is_recognised_and_needs_no_settings(pooled_url: str, direct_url: str) -> None:
    async with Locks.from_url(pooled_url) as locks:
        assert locks._store_client.store._server.pooled  # type: ignore[attr-defined]
        async with locks.acquire("key") as lease:
            lease.ensure()
    async with Locks.from_url(direct_url) as locks:
        assert not locks._store_client.store._server.pooled  # type: ignore[attr-defined]


async def test_twenty_tasks_are_served_in_order(pooled_url: str) -> None:
    async with Locks.from_url(pooled_url) as locks:
        served: list[int] = []

        async def work(number: int) -> int:
            async with locks.acquire("key") as lease:
                served.append(number)
                return lease.fence

        holder = await locks.acquire("key")
        tasks = []
        for number in range(20):
            tasks.append(asyncio.create_task(work(number)))
            await queue_of(locks, "key", number + 1)
        await holder.release()
        fences = await asyncio.gather(*tasks)

    assert served == list(range(20))
    assert fences == sorted(fences)


async def count_up(url: str, turns: int, tasks: int) -> list[list[float]]:
    """In a process of its own: add to a shared counter, without any protection but the lock."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    spans: list[list[float]] = []

    async def work() -> None:
        for _ in range(turns):
            async with locks.acquire("counter", wait=60) as lease:
                begun = time.monotonic()
                async with connection.transaction():
                    value = await connection.fetchval("select value from counter")
                async with connection.transaction():
                    await connection.execute("update counter set value = $1, fence = $2", value + 1, lease.fence)
                spans.append([lease.fence, begun, time.monotonic()])

    async with Locks.from_url(url) as locks:
        await wait_at_barrier_async()
        await asyncio.gather(*(work() for _ in range(tasks)))
    await connection.close()
    return spans


async def test_two_processes_of_ten_tasks_exclude_one_another(pooled_url: str, direct_url: str) -> None:
    async with Locks.from_url(direct_url):
        pass
    connection = await asyncpg.connect(direct_url)
    await connection.execute("create table counter as select 0 as value, 0::bigint as fence")

    async with (
        Worker.spawn(f"{__name__}:count_up", [pooled_url, 2, 10]) as one,
        Worker.spawn(f"{__name__}:count_up", [pooled_url, 2, 10]) as two,
    ):
        await Barrier(one, two).release(timeout=60)
        spans = [*await one.result(60), *await two.result(60)]

    assert await connection.fetchval("select value from counter") == 40
    await connection.close()
    spans.sort()
    assert len({fence for fence, _, _ in spans}) == 40
    assert all(before[2] <= after[1] for before, after in itertools.pairwise(spans))


async def test_leases_and_sessions_are_renewed(pooled_url: str) -> None:
    async with (
        Locks.from_url(pooled_url, session_ttl=3) as locks,
        locks.acquire("key", ttl=3) as lease,
    ):
        deadline, session_deadline = lease._deadline, lease._session.deadline
        await until(lambda: lease._deadline > deadline + 2 and lease._session.deadline > session_deadline + 2)

        lease.ensure()
        view = await get_or_none(locks, "key")
        assert view is not None
        assert view.holder is not None
        assert view.holder.fence == lease.fence


async def test_a_deadlock_is_found_when_it_closes(pooled_url: str) -> None:
    async with Locks.from_url(pooled_url) as one, Locks.from_url(pooled_url) as two:
        both_hold = asyncio.Barrier(2)
        errors: list[DeadlockError] = []

        async def take(locks: Locks, first: str, second: str) -> None:
            try:
                async with locks.acquire(first):
                    await both_hold.wait()
                    async with locks.acquire(second):
                        pass
            except DeadlockError as error:
                errors.append(error)

        begun = time.monotonic()
        async with asyncio.timeout(20):
            await asyncio.gather(take(one, "a", "b"), take(two, "b", "a"))
        took = time.monotonic() - begun

    (error,) = errors
    assert len(error.cycle) == 2
    assert took < 1.0


async def test_a_fenced_transaction_commits_with_its_lease_and_is_refused_without(pooled_url: str) -> None:
    async with Locks.from_url(pooled_url) as locks:
        async with locks.acquire("key") as lease, lease.fenced() as transaction:
            await transaction.execute("create table written (fence bigint)")
            await transaction.execute("insert into written values ($1)", lease.fence)
            assert await transaction.fetch("select fence from written") == [(lease.fence,)]

        stale = await locks.acquire("key")
        assert await locks.force_release("key", reason="stuck", by="eva") is not None
        with pytest.raises(LeaseLostError):
            async with locks._store_client.store.locks.fenced("key", stale.owner, stale.fence) as transaction:
                await transaction.execute("insert into written values (-1)")

        async with locks.acquire("key") as lease, lease.fenced() as transaction:
            assert await transaction.fetch("select count(*) from written") == [(1,)]


async def test_a_forced_release_reaches_the_holder(pooled_url: str) -> None:
    async with Locks.from_url(pooled_url) as locks, Locks.from_url(pooled_url) as admin:
        lease = await locks.acquire("key", ttl=300)
        begun = time.monotonic()
        await admin.force_release("key", reason="stuck", by="eva")
        await until(lambda: lease.lost)
        took = time.monotonic() - begun

    assert took < 2.0


# -- messages ------------------------------------------------------------------------------------------------------


async def test_missing_messages_are_noticed_and_said_and_hand_overs_go_on(
    pooled_url: str, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    async with Locks.from_url(pooled_url) as one, Locks.from_url(pooled_url) as two:
        assert not await knows_whether_messages_arrive(one)
        assert not await knows_whether_messages_arrive(two)
        await until(lambda: count(caplog, DEAF) == 2)  # a thread writes the log
        took = await hand_overs(one, two, 12)

    say("no listen_url", took, record_property)
    assert max(took) < 1.0


async def test_with_a_direct_address_for_messages_they_arrive(
    pooled_url: str,
    direct_url: str,
    caplog: pytest.LogCaptureFixture,
    record_property: Callable[[str, object], None],
) -> None:
    settings = Settings(listen_url=direct_url, recheck_interval=30)
    async with (
        Locks.from_url(pooled_url, settings=settings) as one,
        Locks.from_url(pooled_url, settings=settings) as two,
    ):
        assert await knows_whether_messages_arrive(one)
        assert await knows_whether_messages_arrive(two)
        took = await hand_overs(one, two, 50)

    say("listen_url", took, record_property)
    assert count(caplog, DEAF) == 0
    assert statistics.median(took) < 0.05
    assert max(took) < 1.0


async def test_who_waits_from_the_first_moment_is_not_forgotten(pooled_url: str) -> None:
    async with Locks.from_url(pooled_url) as one, Locks.from_url(pooled_url, recheck_interval=30) as two:
        lease = await one.acquire("key")
        waiter = asyncio.create_task(take(two, "key"))  # before it is known whether messages arrive
        await queue_of(one, "key", 1)
        begun = time.monotonic()
        await lease.release()
        granted = await asyncio.wait_for(waiter, 20)
        took = time.monotonic() - begun
        await granted.release()

    assert took < 1.0


async def test_all_of_many_that_open_at_once_find_out(pooled_url: str, caplog: pytest.LogCaptureFixture) -> None:
    stores = [Locks.from_url(pooled_url, recheck_interval=30) for _ in range(12)]
    await asyncio.gather(*(locks.open() for locks in stores))
    try:
        for locks in stores:
            assert not await knows_whether_messages_arrive(locks)
        took = [(await hand_overs(giver, taker, 1))[0] for giver, taker in itertools.pairwise(stores)]
    finally:
        await asyncio.gather(*(locks.close() for locks in stores))

    assert count(caplog, DEAF) == len(stores)
    assert max(took) < 1.0


# -- connections ---------------------------------------------------------------------------------------------------


async def wait_in_line(url: str, waiters: int) -> int:
    """In a process of its own: wait for one key many times over, until told to give up."""
    async with Locks.from_url(url) as locks:

        async def wait() -> None:
            async with locks.acquire("busy", wait=60):
                pass

        tasks = [asyncio.create_task(wait()) for _ in range(waiters)]
        await receive_async("go on")
        await asyncio.gather(*tasks)
        return len(tasks)


async def test_a_hundred_waiters_occupy_no_server_connection(
    pgbouncer: PgBouncer, pooled_url: str, direct_url: str, database: str
) -> None:
    backends = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    at_work = f"{backends} and state <> 'idle'"
    connection = await asyncpg.connect(direct_url)
    async with (
        Locks.from_url(pooled_url) as locks,
        Worker.spawn(f"{__name__}:wait_in_line", [pooled_url, 50]) as one,
        Worker.spawn(f"{__name__}:wait_in_line", [pooled_url, 50]) as two,
    ):
        lease = await locks.acquire("busy")
        await queue_of(locks, "busy", 100)

        took = []
        busy = []
        for number in range(50):
            assert await connection.fetchval(backends) <= pgbouncer.pool_size
            busy.append(await connection.fetchval(at_work))
            begun = time.monotonic()
            async with locks.acquire(f"free {number}"):
                took.append(time.monotonic() - begun)
        clients = sum(client["database"] == database for client in await asyncio.to_thread(pgbouncer.show, "clients"))

        for worker in (one, two):
            worker.send("go on")
        await lease.release()
        for worker in (one, two):
            assert await worker.result(60) == 50
        assert await connection.fetchval(backends) <= pgbouncer.pool_size
    await connection.close()

    assert min(busy) == 0  # a waiter that kept one would always be seen
    assert statistics.median(took) < 0.1
    assert clients <= 3 * 6  # per process: four lanes, a lifeline, a listener


async def test_a_host_that_vanished_in_a_fenced_transaction_does_not_keep_its_key(
    pooled_url: str, direct_url: str, pgbouncer: PgBouncer
) -> None:
    settings = Settings(session_ttl=3, store_wait=4, recheck_interval=0.5, stuck_work="report")
    with ThreadedFaultProxy("127.0.0.1", pgbouncer.port) as proxy:
        async with (
            Locks.from_url(direct_url, settings=settings) as others,
            Locks.from_url(proxy.url(pooled_url), settings=settings) as locks,
        ):
            await vanish_in_a_fenced_transaction(locks, proxy, others)


async def test_what_a_fenced_transaction_leaves_in_its_session_reaches_no_other_client(
    pooled_url: str, direct_url: str
) -> None:
    direct = await asyncpg.connect(direct_url)
    try:
        async with Locks.from_url(pooled_url) as locks, locks.acquire("key") as lease:
            async with lease.fenced() as transaction:
                await transaction.execute("create table pushed (fence bigint)")
                await transaction.execute("insert into pushed values ($1)", lease.fence)
                await transaction.execute("select pg_advisory_lock(4711)")
                await transaction.execute("set statement_timeout = '47s'")
                await transaction.execute("create temp table mine (id integer)")

            assert await direct.fetchval("select count(*) from pushed") == 1
            assert await direct.fetchval("select pg_try_advisory_lock(4711)")
            temporary = "select count(*) from pg_class where relname = 'mine' and relpersistence = 't'"
            assert await direct.fetchval(temporary) == 0
            async with lease.fenced() as transaction:
                assert await transaction.fetch("select current_setting('statement_timeout')") == [("0",)]
    finally:
        await direct.close()


async def test_an_error_swallowed_in_a_fenced_transaction_is_reported_through_a_pooler(pooled_url: str) -> None:
    async def write(lease: Lease) -> None:
        async with lease.fenced() as transaction:
            with pytest.raises(asyncpg.UndefinedTableError):
                await transaction.execute("insert into nowhere values (1)")

    async with Locks.from_url(pooled_url) as locks, locks.acquire("key") as lease:
        with pytest.raises(MisuseError, match="swallowed"):
            await write(lease)
