"""What the outage tests share: settings, ways for a store to go away, and waiting for conditions."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks, Settings
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

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
