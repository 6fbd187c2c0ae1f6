"""What took effect on Redis although its reply was lost is neither done twice nor left behind."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
import redis

from interlock import Locks, Settings, StoreUnavailableError
from interlock.backends.redis.locks import RedisLocks
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import RedisServer
from tests.backends.outages import SOON, STEADY, STORE_WAIT, Events, no_longer_than, queue_of, take, until, until_free

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# How the replies to a request begin: an array whose first member says which it is.
GRANTED, WAITING = b"*3\r\n:1\r\n", b"*2\r\n:2\r\n"


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    running.flush()
    return running


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[ThreadedFaultProxy]:
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url(), decode_responses=True) as client:
        yield client


def last_fence(client: redis.Redis) -> int:
    return int(str(client.get("interlock:default:fence")))


async def test_a_grant_whose_reply_was_lost_is_the_same_grant(
    server: RedisServer, proxy: ThreadedFaultProxy, client: redis.Redis
) -> None:
    async with Locks.from_url(proxy.url(server.url()), settings=STEADY) as locks:
        proxy.drop_replies(1, containing=GRANTED)

        async with locks.acquire("key", wait=SOON) as lease:
            view = await locks.show("key")

        assert proxy.fired["drop_replies"] == 1
        assert view is not None
        assert view.holder is not None
        assert (view.holder.fence, view.waiters) == (lease.fence, ())
        assert last_fence(client) == lease.fence


async def test_a_grant_that_nobody_heard_of_is_given_back(server: RedisServer, proxy: ThreadedFaultProxy) -> None:
    async with (
        Locks.from_url(proxy.url(server.url()), settings=STEADY) as locks,
        Locks.from_url(server.url(), settings=STEADY) as others,
    ):
        async with locks.acquire("key"):
            pass
        proxy.drop_replies(1, containing=GRANTED)
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
    server: RedisServer, proxy: ThreadedFaultProxy
) -> None:
    async with (
        Locks.from_url(proxy.url(server.url()), settings=STEADY) as locks,
        Locks.from_url(server.url(), settings=STEADY) as others,
    ):
        async with locks.acquire("key"):
            pass
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


async def test_a_request_that_was_cancelled_before_it_was_sent_leaves_nothing(
    server: RedisServer, proxy: ThreadedFaultProxy
) -> None:
    async with (
        Locks.from_url(proxy.url(server.url()), settings=STEADY) as locks,
        Locks.from_url(server.url(), settings=STEADY) as others,
    ):
        proxy.reset()
        proxy.delay(0.05)  # so that it is cancelled while the connection is still being made
        for _ in range(5):
            task = asyncio.create_task(take(locks, "key", ttl_seconds=300))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        proxy.heal()
        async with locks.acquire("another", wait=SOON):
            pass

        await until_free(others, "key")


async def test_a_release_whose_reply_was_lost_still_calls_the_next(
    server: RedisServer, proxy: ThreadedFaultProxy, client: redis.Redis
) -> None:
    settings = Settings(session_seconds=30, store_wait=STORE_WAIT, recheck_seconds=20, stuck_work="report")
    async with Locks.from_url(proxy.url(server.url()), settings=settings) as locks:
        lease = await locks.acquire("key", ttl_seconds=300)
        waiter = asyncio.create_task(take(locks, "key", wait=30))
        (next_owner,) = await queue_of(locks, "key", 1)
        proxy.drop_replies(1, containing=next_owner.encode())

        async with no_longer_than(SOON):
            await lease.release()
            granted = await waiter

        assert proxy.fired["drop_replies"] == 1
        assert granted.owner == next_owner
        assert granted.fence > lease.fence
        assert granted.fence == last_fence(client)
        await granted.release()
        await until_free(locks, "key")


async def test_a_release_whose_reply_was_lost_and_cannot_be_repeated_leaves_nothing_held(
    server: RedisServer, proxy: ThreadedFaultProxy, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    belongings = RedisLocks.belongings

    async def count_belongings(self: RedisLocks, session: str) -> Sequence[tuple[str, str]]:
        nonlocal looks
        found = await belongings(self, session)
        looks += 1
        return found

    monkeypatch.setattr(RedisLocks, "belongings", count_belongings)
    async with (
        Locks.from_url(proxy.url(server.url()), settings=STEADY) as locks,
        Locks.from_url(server.url(), settings=STEADY) as others,
    ):
        lease = await locks.acquire("key", ttl_seconds=300)
        waiter = asyncio.create_task(take(others, "key", wait=30))
        (next_owner,) = await queue_of(others, "key", 1)
        proxy.drop_replies(1, containing=next_owner.encode())
        proxy.refuse()

        await lease.release()
        assert proxy.fired["drop_replies"] == 1
        assert events["lock_release_failed"]
        looks_before = looks
        proxy.heal()

        granted = await asyncio.wait_for(waiter, SOON)
        assert granted.owner == next_owner
        # What is made good afterwards must not take the key from its new holder.
        await until(lambda: looks >= looks_before + 2)
        granted.ensure()
        await granted.release()
        await until_free(others, "key")


@pytest.mark.parametrize("cut_after", [WAITING, GRANTED])
async def test_connections_reset_in_the_middle_lose_and_keep_nothing(
    server: RedisServer, proxy: ThreadedFaultProxy, cut_after: bytes
) -> None:
    # Every cut may hit the same few requests again: they shall have the time to outlast them all.
    settings = Settings(session_seconds=30, store_wait=10, recheck_seconds=0.5, stuck_work="report")
    async with Locks.from_url(proxy.url(server.url()), settings=settings) as locks:
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
        assert proxy.fired["drop_replies"] >= 2
        await until_free(locks, "key")
