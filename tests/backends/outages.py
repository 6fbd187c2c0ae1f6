"""What the outage tests share: settings, ways for a store to go away, and waiting for conditions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any, Protocol

import asyncpg
import pytest
import redis

from interlock import Locks, Settings
from interlock.errors import LeaseLostError, LockTimeoutError, StoreUnavailableError
from interlock.testing import clock
from interlock.testing.lookup import get_or_none
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import PostgresServer, RedisServer
from tests.databases import CleanDatabases, new_database

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from interlock import Lease

STORE_WAIT = 1.0
SMALL = 4.0
"""What a busy machine may add to a bounded time. Without the bound, the call would never return."""
SOON = 5.0

# stuck_work: work that overruns shall fail its test, not end the test run.
SHORT = Settings(session_ttl=3, store_wait=STORE_WAIT, recheck_interval=0.5, stuck_work="report")
SQLITE = Settings(session_ttl=30, store_wait=0.5, recheck_interval=0.5, stuck_work="report")
STEADY = Settings(session_ttl=30, store_wait=STORE_WAIT, recheck_interval=0.5, stuck_work="report")


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


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for a condition, which may be a coroutine function."""
    await clock.until(condition, within=seconds)


async def until_free(locks: Locks, key: str, seconds: float = SOON) -> None:
    """Wait until nobody holds or awaits the key, without ever asking for it: asking would mend what is tested."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            view = await get_or_none(locks, key)
        except StoreUnavailableError:
            assert time.monotonic() < deadline, "still out of reach"
            continue
        if view is None or not (view.holder or any(waiter.live for waiter in view.waiters)):
            return
        assert time.monotonic() < deadline, f"still there: {view}"
        await asyncio.sleep(0.02)


async def queue_of(locks: Locks, key: str, length: int) -> list[str]:
    """Wait for a queue of that length, and name its members in order."""
    deadline = time.monotonic() + SOON
    while True:
        view = await get_or_none(locks, key)
        owners = [waiter.owner for waiter in view.waiters] if view else []
        if len(owners) == length:
            return owners
        assert time.monotonic() < deadline, f"{len(owners)} wait, not {length}"
        await asyncio.sleep(0.01)


async def vanish_in_a_fenced_transaction(locks: Locks, proxy: ThreadedFaultProxy, others: Locks) -> None:
    """Cut `locks` off in the middle of a fenced transaction; `others` get its key no later than its session ends."""
    lease = await locks.acquire("key")

    async def vanish() -> None:
        async with lease, lease.fenced() as transaction:
            await transaction.execute("select 1")
            proxy.blackhole()
            await asyncio.get_running_loop().create_future()

    with pytest.raises((LeaseLostError, StoreUnavailableError)):
        await vanish()
    newer = None
    async with asyncio.timeout(20):
        while newer is None:
            with contextlib.suppress(StoreUnavailableError, LockTimeoutError):
                newer = await others.acquire("key", wait=SOON)
    assert newer.fence > lease.fence
    proxy.heal()


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
    """A way in which a server goes away, and comes back. `url` leads to a store on it that is the test's own."""

    def __init__(self, url: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self.url = url
        self._begin = begin
        self._end = end

    async def begin(self) -> None:
        await asyncio.to_thread(self._begin)

    async def end(self) -> None:
        await asyncio.to_thread(self._end)


class Observer(Protocol):
    """What a server can be asked about its store, over a connection that is not ours."""

    async def connections(self) -> int:
        """How many others are connected."""
        ...

    async def last_fence(self) -> int: ...

    def hear(self, *several: Locks) -> bool:
        """Whether messages reach all of these, which have then told everyone to ask."""
        ...


class PostgresObserver:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def connections(self) -> int:
        others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        return int(await self._connection.fetchval(others))

    async def last_fence(self) -> int:
        return int(await self._connection.fetchval("select last_value from interlock.fence"))

    def hear(self, *several: Locks) -> bool:
        return all(listener_of(locks).works is True for locks in several)


class RedisObserver:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    async def connections(self) -> int:
        return len(self._client.client_list()) - 1

    async def last_fence(self) -> int:
        return int(str(self._client.get("interlock:default:fence")))

    def hear(self, *several: Locks) -> bool:
        return len(self._client.pubsub_channels()) == len(several)


def listener_of(locks: Locks) -> Any:
    """What hears the messages of a PostgreSQL."""
    messages: Any = locks._store_client.store.messages
    return messages._listener


@asynccontextmanager
async def observing(url: str) -> AsyncIterator[Observer]:
    if url.startswith("redis"):
        with redis.Redis.from_url(url, decode_responses=True) as client:
            yield RedisObserver(client)
        return
    connection = await asyncpg.connect(url)
    try:
        yield PostgresObserver(connection)
    finally:
        await connection.close()


@pytest.fixture(scope="module", params=["postgres", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of server to test on: both in turn, unless a module has a fixture of that name."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str) -> Iterator[PostgresServer | RedisServer]:
    """A server of this module's own, which its tests may end.

    PostgreSQL starts sooner as it never waits for the disk, Redis keeps what it acknowledged.
    """
    with PostgresServer(settings={"fsync": "off"}) if kind == "postgres" else RedisServer(appendonly=True) as server:
        yield server


@pytest.fixture(scope="module")
def databases(server: PostgresServer | RedisServer) -> Iterator[CleanDatabases | None]:
    """The databases that the tests on the server use in turn; Redis needs none."""
    if isinstance(server, RedisServer):
        yield None
        return
    for template in new_database(server, migrated=True):
        with closing(CleanDatabases(server, template)) as databases:
            yield databases


@pytest.fixture
def url(server: PostgresServer | RedisServer, databases: CleanDatabases | None) -> Iterator[str]:
    """An empty store on the server, which runs again afterwards."""
    if isinstance(server, RedisServer):
        server.flush()
        yield server.url()
        server.start()
        return
    assert databases is not None
    name = databases.take()
    yield server.url(name)
    server.start()
    databases.give_back(name)


@pytest.fixture
def proxy(server: PostgresServer | RedisServer) -> Iterator[ThreadedFaultProxy]:
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


def cut_off(proxy: ThreadedFaultProxy) -> None:
    proxy.refuse()
    proxy.reset()


@pytest.fixture
def outage(
    request: pytest.FixtureRequest, server: PostgresServer | RedisServer, url: str, proxy: ThreadedFaultProxy
) -> Outage:
    through = proxy.url(url)
    return {
        "stopped": Outage(url, server.stop, server.start),
        "killed": Outage(url, server.kill, server.start),
        "blackhole": Outage(through, proxy.blackhole, proxy.heal),
        "half_open": Outage(through, proxy.half_open, proxy.heal),
        "reset": Outage(through, lambda: cut_off(proxy), proxy.heal),
    }[request.param]


def when(*ways: str) -> pytest.MarkDecorator:
    """Run the test once for each way to go away."""
    return pytest.mark.parametrize("outage", ways, indirect=True)


in_every_way = when("stopped", "killed", "blackhole", "half_open", "reset")
