"""A store that goes away raises StoreUnavailableError in bounded time and works again when it is back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import sqlite3
import tempfile
import threading
import time
import uuid
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from interlock import FOREVER, LeaseLostError, Locks, Settings, StoreError, StoreUnavailableError
from interlock.testing.processes import Worker, receive, report
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from interlock import Lease

STORE_WAIT = 1.0
SMALL = 0.8
SOON = 5.0

# stuck_work: work that overruns shall fail its test, not end the test run.
SHORT = Settings(session_seconds=3, store_wait=STORE_WAIT, recheck_seconds=0.5, stuck_work="report")
SQLITE = Settings(session_seconds=30, store_wait=0.5, recheck_seconds=0.5, stuck_work="report")
STEADY = Settings(session_seconds=30, store_wait=STORE_WAIT, recheck_seconds=0.5, stuck_work="report")


class Events:
    """What was logged, by the events' names."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __getitem__(self, name: str) -> list[Any]:
        return [record for record in self._caplog.records if getattr(record, "event", "") == name]


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Events:
    caplog.set_level("DEBUG", "interlock")
    return Events(caplog)


async def take(locks: Locks, key: str, **options: Any) -> Lease:
    """A lease without a block, as something that a task can be made of."""
    return await locks.acquire(key, **options)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


async def until_free(locks: Locks, key: str, seconds: float = SOON) -> None:
    """Wait until nobody holds or awaits the key, without ever asking for it: asking would mend what is tested."""
    deadline = time.monotonic() + seconds
    while True:
        view = await locks.show(key)
        if view is None or not (view.holder or any(waiter.live for waiter in view.waiters)):
            return
        assert time.monotonic() < deadline, f"still there: {view}"
        await asyncio.sleep(0.02)


async def queue_of(locks: Locks, key: str, length: int) -> list[str]:
    """Wait for a queue of that length, and name its members in order."""
    deadline = time.monotonic() + SOON
    while True:
        view = await locks.show(key)
        owners = [waiter.owner for waiter in view.waiters] if view else []
        if len(owners) == length:
            return owners
        assert time.monotonic() < deadline, f"{len(owners)} wait, not {length}"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def no_longer_than(seconds: float) -> AsyncIterator[None]:
    """Fail if the block takes longer, and do not wait for it for ever."""
    begun = time.monotonic()
    async with asyncio.timeout(seconds + 10):
        yield
    took = time.monotonic() - begun
    assert took <= seconds, f"took {took:.2f} s, allowed were {seconds:.2f} s"


def own_threads() -> list[str]:
    """The threads that stores and sessions have left."""
    ours = ("interlock-session", "interlock-writer", "interlock-lifeline", "interlock-watcher", "interlock-fenced")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(ours)]


class Outage:
    """A way in which a PostgreSQL goes away, and comes back. `url` leads to a database of its own."""

    def __init__(self, url: str, begin: Callable[[], None], end: Callable[[], None], direct_url: str) -> None:
        self.url = url
        self.direct_url = direct_url
        self._begin = begin
        self._end = end

    async def begin(self) -> None:
        await asyncio.to_thread(self._begin)

    async def end(self) -> None:
        await asyncio.to_thread(self._end)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL of this module's own, which its tests may end. It starts sooner as it never waits for the disk."""
    with PostgresServer(settings={"fsync": "off"}) as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> Iterator[str]:
    name = f"interlock_{uuid.uuid4().hex}"
    server.create_database(name)
    yield name
    server.start()
    server.drop_database(name)


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[ThreadedFaultProxy]:
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


def cut_off(proxy: ThreadedFaultProxy) -> None:
    proxy.refuse()
    proxy.reset()


@pytest.fixture
def outage(request: pytest.FixtureRequest, server: PostgresServer, database: str, proxy: ThreadedFaultProxy) -> Outage:
    url = server.url(database)
    through = proxy.url(url)
    return {
        "stopped": Outage(url, server.stop, server.start, url),
        "killed": Outage(url, server.kill, server.start, url),
        "blackhole": Outage(through, proxy.blackhole, proxy.heal, url),
        "half_open": Outage(through, proxy.half_open, proxy.heal, url),
        "reset": Outage(through, lambda: cut_off(proxy), proxy.heal, url),
    }[request.param]


def when(*ways: str) -> pytest.MarkDecorator:
    """Run the test once for each way to go away."""
    return pytest.mark.parametrize("outage", ways, indirect=True)


in_every_way = when("stopped", "killed", "blackhole", "half_open", "reset")


# -- PostgreSQL: asking ------------------------------------------------------------------------------------------


@in_every_way
async def test_acquire_raises_in_bounded_time_and_works_again(outage: Outage) -> None:
    async with Locks.from_url(outage.url, settings=SHORT) as locks:
        async with locks.acquire("before"):
            pass

        await outage.begin()
        async with no_longer_than(STORE_WAIT + SMALL):
            with pytest.raises(StoreUnavailableError) as raised:
                await locks.acquire("during", wait=FOREVER)
        await outage.end()

        assert raised.value.code == "store-unavailable"
        async with locks.acquire("after", wait=SOON) as lease:
            lease.ensure()


@when("blackhole", "half_open", "reset")
async def test_many_who_ask_at_once_all_hear_in_bounded_time(outage: Outage) -> None:
    async with Locks.from_url(outage.url, settings=SHORT) as locks:
        async with locks.acquire("one"):
            pass

        await outage.begin()
        async with no_longer_than(STORE_WAIT + SMALL):
            answers = await asyncio.gather(*(take(locks, "one") for _ in range(30)), return_exceptions=True)
        await outage.end()

        assert {type(answer) for answer in answers} == {StoreUnavailableError}
        await until_free(locks, "one")


@when("killed", "blackhole", "half_open")
async def test_opening_raises_in_bounded_time_and_can_be_repeated(outage: Outage) -> None:
    locks = Locks.from_url(outage.url, settings=SHORT)

    await outage.begin()
    async with no_longer_than(STORE_WAIT + SMALL):
        with pytest.raises(StoreUnavailableError):
            await locks.open()
    await outage.end()

    assert not own_threads()
    async with locks, locks.acquire("key", wait=SOON) as lease:
        lease.ensure()


async def test_opening_is_bounded_when_the_store_goes_away_on_the_way(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy, monkeypatch: pytest.MonkeyPatch
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
            await Locks.from_url(proxy.url(server.url(database)), settings=SHORT).open()
    assert connections == 2


@when("killed", "blackhole", "reset")
async def test_closing_takes_bounded_time_and_leaves_no_connection(outage: Outage) -> None:
    locks = Locks.from_url(outage.url, settings=SHORT)
    await locks.open()
    lease = await locks.acquire("key")

    await outage.begin()
    async with no_longer_than(SHORT.session_seconds + STORE_WAIT + SMALL):
        await locks.close()
    await outage.end()

    assert lease.lost
    connection = await asyncpg.connect(outage.direct_url)
    try:
        deadline = time.monotonic() + SOON
        while await connection.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        ):
            assert time.monotonic() < deadline, "connections are left"
    finally:
        await connection.close()


async def test_closing_ends_also_while_the_listener_is_in_the_middle_of_something(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy
) -> None:
    settings = Settings(session_seconds=30, store_wait=3, recheck_seconds=0.5, stuck_work="report")
    locks = Locks.from_url(proxy.url(server.url(database)), settings=settings)
    await locks.open()
    listener: Any = locks._store.locks._listener  # type: ignore[attr-defined]
    await until(lambda: listener.works is True)
    proxy.delay(0.05)
    proxy.reset()
    connection = await asyncpg.connect(server.url(database))
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


# -- PostgreSQL: holding -----------------------------------------------------------------------------------------


@when("killed", "blackhole")
async def test_a_lease_survives_a_short_outage(outage: Outage, events: Events) -> None:
    settings = Settings(session_seconds=5, store_wait=STORE_WAIT, recheck_seconds=0.5, stuck_work="report")
    async with (
        Locks.from_url(outage.url, settings=settings) as locks,
        locks.acquire("key", ttl_seconds=5) as lease,
    ):
        session = lease.session
        await outage.begin()
        await until(lambda: bool(events["lock_renewal_failed"] and events["session_renewal_failed"]))
        await outage.end()
        deadlines = lease.deadline, session.deadline
        await until(lambda: lease.deadline > deadlines[0] and session.deadline > deadlines[1])

        lease.ensure()
        view = await locks.show("key")
        assert view is not None
        assert view.holder is not None
        assert (view.holder.owner, view.holder.fence) == (lease.owner, lease.fence)
    assert not events["lease_lost"]


@when("killed", "blackhole")
async def test_a_long_outage_cancels_the_body_before_the_lease_can_pass_on(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=SHORT) as locks:
        entered = asyncio.Event()

        times: list[tuple[Lease, float, float]] = []

        async def body() -> None:
            async with locks.acquire("key", ttl_seconds=300) as lease:
                entered.set()
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    # The deadline keeps a margin before the store's own end of the session.
                    ends = lease.session.deadline + SHORT.session_margin
                    times.append((lease, locks._clock.monotonic(), ends))

        task = asyncio.create_task(body())
        await entered.wait()
        await outage.begin()
        with pytest.raises(LeaseLostError):
            await asyncio.wait_for(task, 10)
        ((lease, ended, ends),) = times
        assert ended < ends
        await outage.end()

        async with locks.acquire("key", wait=SOON) as newer:
            assert newer.fence > lease.fence
    assert not events["work_overran_session"]


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

        async with no_longer_than(SHORT.session_seconds + SMALL):
            with pytest.raises((LeaseLostError, StoreUnavailableError)):
                await write()
        await outage.end()

        async with locks.acquire("key", wait=SOON) as lease, lease.fenced() as transaction:
            assert await transaction.fetch("select count(*) from written") == [(0,)]
    assert not events["work_overran_session"]


# -- PostgreSQL: releasing ---------------------------------------------------------------------------------------


@when("killed", "blackhole", "half_open")
async def test_a_release_that_fails_is_logged_and_made_good(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        lease = await locks.acquire("key", ttl_seconds=300)

        await outage.begin()
        async with no_longer_than(2 * STORE_WAIT + SMALL):
            await lease.release()
        (logged,) = events["lock_release_failed"]
        assert logged.fields["key"] == "key"
        await outage.end()

        await until_free(locks, "key")
        assert not lease.session.lost  # so it was given back, and did not just run out with its session


@when("reset")
async def test_leaving_the_block_during_an_outage_raises_nothing(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        async with locks.acquire("key", ttl_seconds=300):
            await outage.begin()
        assert events["lock_release_failed"]
        await outage.end()

        await until_free(locks, "key")


# -- PostgreSQL: waiting -----------------------------------------------------------------------------------------


@in_every_way
async def test_waiters_stay_in_order_through_a_restart(outage: Outage) -> None:
    async with (
        Locks.from_url(outage.url, settings=STEADY) as locks,
        Locks.from_url(outage.url, settings=STEADY) as others,
    ):
        holder = await locks.acquire("key", ttl_seconds=300)
        served: list[int] = []

        async def wait(number: int) -> None:
            async with others.acquire("key", wait=30):
                served.append(number)

        waiters = []
        for number in range(5):
            waiters.append(asyncio.create_task(wait(number)))
            await queue_of(locks, "key", number + 1)
        await outage.begin()
        await outage.end()
        await holder.release()

        async with no_longer_than(SOON):
            await asyncio.gather(*waiters)
        assert served == [0, 1, 2, 3, 4]


@when("killed", "blackhole")
async def test_waiters_outlast_an_outage_that_ends_their_sessions(outage: Outage, events: Events) -> None:
    async with (
        Locks.from_url(outage.url, settings=SHORT) as locks,
        Locks.from_url(outage.url, settings=SHORT) as others,
    ):
        # Who is asking when an outage begins may give up after store_wait; here all shall sit and wait.
        listener: Any = others._store.locks._listener  # type: ignore[attr-defined]
        await until(lambda: listener.works is True)  # it has told everyone to ask
        holder = await locks.acquire("key", ttl_seconds=300)
        inside = 0

        async def wait() -> int:
            nonlocal inside
            async with others.acquire("key", wait=30) as lease:
                inside += 1
                assert inside == 1
                await asyncio.sleep(0)
                inside -= 1
                return lease.fence

        waiters = [asyncio.create_task(wait()) for _ in range(5)]
        await until(lambda: len(events["lock_waiting"]) == 5)
        await outage.begin()
        await until(lambda: len(events["session_lost"]) == 2)
        await outage.end()

        async with no_longer_than(SOON + SHORT.session_seconds):
            fences = await asyncio.gather(*waiters)
        assert all(fence > holder.fence for fence in fences)
        assert len(set(fences)) == 5
        await until_free(locks, "key")


# -- PostgreSQL: lost replies ------------------------------------------------------------------------------------


async def test_a_grant_whose_reply_was_lost_is_the_same_grant(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy
) -> None:
    async with Locks.from_url(proxy.url(server.url(database)), settings=STEADY) as locks:
        proxy.drop_replies(1, containing=b"granted")

        async with locks.acquire("key", wait=SOON) as lease:
            view = await locks.show("key")

        assert proxy.fired["drop_replies"] == 1
        assert view is not None
        assert view.holder is not None
        assert (view.holder.fence, view.waiters) == (lease.fence, ())
        connection = await asyncpg.connect(server.url(database))
        granted = await connection.fetchval("select last_value from interlock.fence")
        await connection.close()
        assert granted == lease.fence


async def test_a_grant_that_nobody_heard_of_is_given_back(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy
) -> None:
    async with (
        Locks.from_url(proxy.url(server.url(database)), settings=STEADY) as locks,
        Locks.from_url(server.url(database), settings=STEADY) as others,
    ):
        async with locks.acquire("key"):
            pass  # so that the connection for this key is there
        proxy.drop_replies(1, containing=b"granted")
        proxy.refuse()

        with pytest.raises(StoreUnavailableError):
            await locks.acquire("key", ttl_seconds=300)
        assert proxy.fired["drop_replies"] == 1
        view = await others.show("key")
        assert view is not None
        assert view.holder is not None
        proxy.heal()

        await until_free(others, "key")


async def test_a_grant_on_the_way_to_a_cancelled_caller_is_given_back(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy
) -> None:
    async with (
        Locks.from_url(proxy.url(server.url(database)), settings=STEADY) as locks,
        Locks.from_url(server.url(database), settings=STEADY) as others,
    ):
        async with locks.acquire("key"):
            pass  # so that the connection for this key is there
        proxy.half_open()
        task = asyncio.create_task(take(locks, "key", ttl_seconds=300))
        deadline = time.monotonic() + SOON
        while await others.show("key") is None:
            assert time.monotonic() < deadline, "the request did not arrive"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.heal()

        await until_free(others, "key")


async def test_a_release_whose_reply_was_lost_still_calls_the_next(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy
) -> None:
    settings = Settings(session_seconds=30, store_wait=STORE_WAIT, recheck_seconds=20, stuck_work="report")
    async with Locks.from_url(proxy.url(server.url(database)), settings=settings) as locks:
        lease = await locks.acquire("key", ttl_seconds=300)
        waiter = asyncio.create_task(take(locks, "key", wait=30))
        (next_owner,) = await queue_of(locks, "key", 1)
        proxy.drop_replies(1, containing=next_owner.encode())

        async with no_longer_than(SOON):
            await lease.release()
            granted = await waiter

        assert proxy.fired["drop_replies"] == 1
        assert granted.owner == next_owner
        assert granted.fence == lease.fence + 1
        await granted.release()
        await until_free(locks, "key")


async def test_a_release_whose_reply_was_lost_and_cannot_be_repeated_leaves_nothing_held(
    server: PostgresServer,
    database: str,
    proxy: ThreadedFaultProxy,
    events: Events,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        Locks.from_url(proxy.url(server.url(database)), settings=STEADY) as locks,
        Locks.from_url(server.url(database), settings=STEADY) as others,
    ):
        belongings = locks._store.locks.belongings
        looks = 0

        async def count_belongings(session: str) -> Any:
            nonlocal looks
            found = await belongings(session)
            looks += 1
            return found

        monkeypatch.setattr(locks._store.locks, "belongings", count_belongings)
        lease = await locks.acquire("key", ttl_seconds=300)
        waiter = asyncio.create_task(take(others, "key", wait=30))
        (next_owner,) = await queue_of(others, "key", 1)
        proxy.drop_replies(1, containing=next_owner.encode())
        proxy.refuse()

        await lease.release()
        assert proxy.fired["drop_replies"] == 1
        assert events["lock_release_failed"]
        proxy.heal()

        granted = await asyncio.wait_for(waiter, SOON)
        assert granted.owner == next_owner
        # What is made good afterwards must not take the key from its new holder.
        await until(lambda: looks >= 2)
        granted.ensure()
        await granted.release()
        await until_free(others, "key")


@pytest.mark.parametrize("cut_after", [b"waiting", b"granted"])
async def test_connections_reset_in_the_middle_lose_and_keep_nothing(
    server: PostgresServer, database: str, proxy: ThreadedFaultProxy, cut_after: bytes
) -> None:
    # Every cut may hit the same few requests again: they shall have the time to outlast them all.
    settings = Settings(session_seconds=30, store_wait=10, recheck_seconds=0.5, stuck_work="report")
    async with Locks.from_url(proxy.url(server.url(database)), settings=settings) as locks:
        fences: list[int] = []

        async def work() -> None:
            for _ in range(5):
                async with locks.acquire("key", wait=30) as lease:
                    fences.append(lease.fence)

        async def disturb() -> None:
            for cuts in range(1, 6):
                proxy.drop_replies(1, containing=cut_after)
                while proxy.fired["drop_replies"] < cuts:
                    if len(fences) == 50:
                        return
                    await asyncio.sleep(0.001)
                proxy.reset()

        async with no_longer_than(20):
            await asyncio.gather(disturb(), *(work() for _ in range(10)))
        assert len(fences) == 50
        assert fences == sorted(set(fences))
        assert proxy.fired["drop_replies"] >= 3
        await until_free(locks, "key")


# -- SQLite ------------------------------------------------------------------------------------------------------


def hold_the_file(path: str) -> None:
    """In another process: keep all others from writing until told to stop."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("begin exclusive")
        report("holding")
        receive("stop")


@asynccontextmanager
async def locked_by_another_process(path: Path) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """The file is locked inside the block, until the function it gives is called."""
    async with Worker.spawn(f"{__name__}:hold_the_file", [str(path)]) as worker:
        await worker.wait_for("holding", timeout=30)

        async def let_go() -> None:
            worker.send("stop")
            assert await worker.wait() == 0

        yield let_go


async def test_a_file_that_stays_locked_raises_in_bounded_time_and_works_again(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks:
        async with locks.acquire("before"):
            pass

        async with locked_by_another_process(path) as let_go:
            async with no_longer_than(SQLITE.store_wait + SMALL):
                answers = await asyncio.gather(
                    *(take(locks, f"during {number % 3}") for number in range(30)), return_exceptions=True
                )
            assert {type(answer) for answer in answers} == {StoreUnavailableError}
            assert str(path) in str(answers[0])
            await let_go()

        async with locks.acquire("after", wait=SOON) as lease:
            lease.ensure()
        for number in range(3):
            await until_free(locks, f"during {number}")


async def test_a_release_while_the_file_is_locked_is_logged_and_made_good(tmp_path: Path, events: Events) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE) as locks:
        lease = await locks.acquire("key", ttl_seconds=300)

        async with locked_by_another_process(path) as let_go:
            async with no_longer_than(2 * SQLITE.store_wait + SMALL):
                await lease.release()
            assert events["lock_release_failed"]
            await let_go()

        await until_free(locks, "key")


async def test_a_file_locked_for_long_cancels_the_body_before_the_lease_can_pass_on(
    tmp_path: Path, events: Events
) -> None:
    path = tmp_path / "interlock.db"
    async with Locks.from_url(f"sqlite:///{path}", settings=SHORT) as locks:
        lease = await locks.acquire("key", ttl_seconds=300)
        async with locked_by_another_process(path) as let_go:
            with pytest.raises(LeaseLostError):
                async with lease:
                    await asyncio.wait_for(asyncio.get_running_loop().create_future(), 10)
            assert locks._clock.monotonic() < lease.session.deadline + SHORT.session_margin
            await let_go()

        async with locks.acquire("key", wait=SOON) as newer:
            assert newer.fence > lease.fence
    assert not events["work_overran_session"]


async def test_a_waiter_outlasts_a_locked_file(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    url = f"sqlite:///{path}"
    async with Locks.from_url(url, settings=SQLITE) as locks, Locks.from_url(url, settings=SQLITE) as others:
        lease = await locks.acquire("key")
        waiter = asyncio.create_task(take(others, "key", wait=30))
        await queue_of(locks, "key", 1)

        async with locked_by_another_process(path) as let_go:
            await lease.release()
            assert not waiter.done()
            await let_go()

        granted = await asyncio.wait_for(waiter, SOON)
        await granted.release()


async def test_opening_a_file_that_stays_locked_raises_in_bounded_time(tmp_path: Path) -> None:
    path = tmp_path / "interlock.db"
    locks = Locks.from_url(f"sqlite:///{path}", settings=SQLITE)

    async with locked_by_another_process(path) as let_go:
        async with no_longer_than(SQLITE.store_wait + SMALL):
            with pytest.raises(StoreUnavailableError):
                await locks.open()
        await let_go()

    assert not own_threads()
    async with locks, locks.acquire("key") as lease:
        lease.ensure()


@pytest.mark.parametrize("content", [b"this is no database at all " * 100, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "interlock.db"
    path.write_bytes(content)

    async with no_longer_than(SQLITE.store_wait + SMALL):
        with pytest.raises(StoreError, match=r"not a database|malformed") as raised:
            await Locks.from_url(f"sqlite:///{path}", settings=SQLITE).open()

    assert not isinstance(raised.value, StoreUnavailableError)  # waiting would not help
    assert str(path) in str(raised.value)
    assert path.read_bytes() == content
    assert not own_threads()


@pytest.mark.parametrize("where", ["missing/interlock.db", "directory"])
async def test_a_path_that_cannot_be_opened_is_a_clear_error(tmp_path: Path, where: str) -> None:
    (tmp_path / "directory").mkdir()

    async with no_longer_than(SQLITE.store_wait + SMALL):
        with pytest.raises(StoreError, match="unable to open database file") as raised:
            await Locks.from_url(f"sqlite:///{tmp_path / where}", settings=SQLITE).open()

    assert str(tmp_path / where) in str(raised.value)


async def open_as_an_ordinary_user(path: str) -> str:
    """In another process: what opening says to someone who may not write there."""
    locks = Locks.from_url(f"sqlite:///{path}", settings=SQLITE)  # first, as modules may be out of reach later
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
        os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)
    begun = time.monotonic()
    try:
        async with locks:
            return "it opened"
    except StoreError as error:
        assert time.monotonic() - begun < SQLITE.store_wait + SMALL
        return str(error)


@pytest.mark.parametrize("existing", [False, True])
async def test_a_directory_without_the_right_to_write_is_a_clear_error(existing: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "interlock.db")
        if existing:
            async with Locks.from_url(f"sqlite:///{path}", settings=SQLITE):
                pass
        Path(directory).chmod(0o555)
        try:
            async with Worker.spawn(f"{__name__}:open_as_an_ordinary_user", [str(path)]) as worker:
                said = await worker.result(30)
        finally:
            Path(directory).chmod(0o755)

    assert str(path) in said
    assert "unable to open database file" in said or "readonly database" in said
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
