"""Redis that goes away or refuses: with or without its data, its scripts, its rank and its memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import redis

from interlock import Locks
from interlock.backends.redis import messages
from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.testing.servers import RedisServer
from tests.backends.outages import (
    SHORT,
    SMALL,
    SOON,
    STEADY,
    STORE_WAIT,
    Events,
    Outage,
    no_longer_than,
    queue_of,
    take,
    until,
    until_free,
    when,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def kind() -> str:
    return "redis"


@pytest.fixture
def client(url: str) -> Iterator[redis.Redis]:
    """A way to the server that is not ours."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client


# -- going away --------------------------------------------------------------------------------------------------


async def holder_is_told_and_work_goes_on(url: str, forget: Callable[[], None]) -> None:
    """Hold a key while the server forgets everything: the body is stopped, and the next fence is larger."""
    async with Locks.from_url(url, settings=SHORT) as locks:
        entered = asyncio.Event()
        fences: list[int] = []

        async def body() -> None:
            async with locks.acquire("key", ttl=300) as lease:
                fences.append(lease.fence)
                entered.set()
                await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(body())
        await entered.wait()
        await asyncio.to_thread(forget)
        async with no_longer_than(SHORT.session_ttl + SMALL):
            with pytest.raises(LeaseLostError):
                await task

        async with locks.acquire("key", wait=SOON) as newer:
            assert newer.fence > fences[0]
        await until_free(locks, "key")


async def test_a_flushed_server_tells_holders_and_fences_keep_growing(server: RedisServer, url: str) -> None:
    await holder_is_told_and_work_goes_on(url, server.flush)


async def test_a_server_that_restarts_without_its_data_tells_holders_and_fences_keep_growing() -> None:
    with RedisServer() as forgetful:

        def restart() -> None:
            forgetful.kill()
            forgetful.start()

        await holder_is_told_and_work_goes_on(forgetful.url(), restart)


async def test_waiters_outlast_a_flushed_server(server: RedisServer, url: str) -> None:
    async with Locks.from_url(url, settings=SHORT) as locks:
        holder = await locks.acquire("key", ttl=300)
        waiters = [asyncio.create_task(take(locks, "key", wait=30)) for _ in range(3)]
        await queue_of(locks, "key", 3)
        server.flush()

        async with no_longer_than(SHORT.session_ttl + SOON):
            for _ in waiters:
                (done, *_), waiting = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
                lease = done.result()
                assert lease.fence > holder.fence
                waiters = list(waiting)
                await lease.release()


@when("blackhole", "half_open")
async def test_a_connection_for_messages_that_leads_nowhere_is_noticed(
    outage: Outage, client: redis.Redis, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_PING_EVERY", 0.05)
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        await until(lambda: len(client.pubsub_channels()) == 1)
        await outage.begin()
        await until(lambda: bool(events["listen_failed"]), STORE_WAIT + SMALL)
        await outage.end()
        await until(lambda: len(client.pubsub_channels()) == 1)
        async with locks.acquire("key", wait=SOON) as lease:
            lease.ensure()


# -- refusals that pass ------------------------------------------------------------------------------------------


async def test_scripts_that_were_flushed_are_loaded_again_and_nobody_notices(
    url: str, client: redis.Redis, events: Events
) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks:
        fences: list[int] = []

        async def work() -> None:
            for _ in range(20):
                async with locks.acquire("key", wait=30) as lease:
                    fences.append(lease.fence)
                    if len(fences) % 10 == 0:
                        client.script_flush()

        await asyncio.gather(*(work() for _ in range(5)))

        assert len(fences) == 100
        assert fences == sorted(set(fences))
        assert not events["lock_release_failed"]
        await until_free(locks, "key")


async def test_a_server_that_became_a_replica_is_unavailable_until_it_is_the_primary_again(
    url: str, client: redis.Redis
) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks:
        async with locks.acquire("before"):
            pass
        client.replicaof("127.0.0.1", "1")
        try:
            async with no_longer_than(STORE_WAIT + SMALL):
                with pytest.raises(StoreUnavailableError, match="READONLY"):
                    await locks.acquire("during")
        finally:
            client.replicaof("NO", "ONE")

        async with locks.acquire("after", wait=SOON) as lease:
            lease.ensure()


async def test_a_server_whose_memory_is_full_is_unavailable_but_takes_releases(url: str, client: redis.Redis) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks:
        lease = await locks.acquire("before")
        client.config_set("maxmemory", "1")
        try:
            async with no_longer_than(STORE_WAIT + SMALL):
                with pytest.raises(StoreUnavailableError, match="OOM"):
                    await locks.acquire("during")
            await lease.release()
            assert await locks.list() == []
        finally:
            client.config_set("maxmemory", "0")

        async with locks.acquire("after", wait=SOON):
            pass


async def test_nothing_that_matters_can_be_evicted_and_nothing_is_kept_of_a_key(url: str, client: redis.Redis) -> None:
    async with Locks.from_url(url, settings=STEADY) as locks:
        before = set(client.keys())
        lease = await locks.acquire("key")
        waiter = asyncio.create_task(take(locks, "key", wait=30))
        await queue_of(locks, "key", 1)
        assert {client.ttl(name) for name in client.scan_iter()} == {-1}
        await lease.release()
        await (await waiter).release()

        assert set(client.keys()) - before == {"interlock:default:fence", "interlock:default:ticket"}
