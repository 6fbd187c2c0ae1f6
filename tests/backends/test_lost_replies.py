"""What took effect on a server although its reply was lost is neither done twice nor left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from interlock import Locks, Settings
from interlock.errors import StoreUnavailableError
from interlock.testing.lookup import get_or_none
from tests.backends.outages import (
    SOON,
    STEADY,
    STORE_WAIT,
    Events,
    no_longer_than,
    observing,
    queue_of,
    take,
    until,
    until_free,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.testing.proxy import ThreadedFaultProxy

pytestmark = pytest.mark.full

# What tells a reply to a request: with Redis it is an array whose first member says which it is.
REPLIES = {
    "postgres": {"granted": b"granted", "waiting": b"waiting"},
    "redis": {"granted": b"*3\r\n:1\r\n", "waiting": b"*2\r\n:2\r\n"},
}
# How many of five cuts must hit something before all the work is done.
CUTS = {"postgres": 3, "redis": 2}


async def on_one_connection(locks: Locks) -> None:
    """Let what these locks do share one connection, and wait until the process has nothing to do on it for a while."""
    store: Any = locks._store_client.store
    if store.name == "postgres":
        store._pool.size = 1
        messages, pool = store.messages, store._pool
        await until(
            lambda: messages._listener.works and not messages._stir.is_set() and not pool.in_use and not pool._opening,
            SOON,
        )
        pool.give_up_idle()  # only now: a connection that was in use or being opened before would have been kept


async def test_a_grant_whose_reply_was_lost_is_the_same_grant(kind: str, url: str, proxy: ThreadedFaultProxy) -> None:
    async with Locks.from_url(proxy.url(url), settings=STEADY) as locks:
        proxy.drop_replies(1, containing=REPLIES[kind]["granted"])

        async with locks.acquire("key", wait=SOON) as lease:
            view = await get_or_none(locks, "key")

        assert proxy.fired["drop_replies"] == 1
        assert view is not None
        assert view.holder is not None
        assert (view.holder.fence, view.waiters) == (lease.fence, ())
        async with observing(url) as observer:
            assert await observer.last_fence() == lease.fence


async def test_a_grant_that_nobody_heard_of_is_given_back(kind: str, url: str, proxy: ThreadedFaultProxy) -> None:
    async with (
        Locks.from_url(proxy.url(url), settings=STEADY) as locks,
        Locks.from_url(url, settings=STEADY) as others,
    ):
        async with locks.acquire("key"):
            pass  # so that there is a connection
        await on_one_connection(locks)
        proxy.drop_replies(1, containing=REPLIES[kind]["granted"])
        proxy.refuse()

        with pytest.raises(StoreUnavailableError):
            await locks.acquire("key", ttl=300)
        assert proxy.fired["drop_replies"] == 1
        view = await get_or_none(others, "key")
        assert view is not None
        assert view.holder is not None
        proxy.heal()

        await until_free(others, "key")


async def test_a_grant_on_the_way_to_a_cancelled_caller_is_given_back(url: str, proxy: ThreadedFaultProxy) -> None:
    async with (
        Locks.from_url(proxy.url(url), settings=STEADY) as locks,
        Locks.from_url(url, settings=STEADY) as others,
    ):
        await on_one_connection(locks)
        async with locks.acquire("key"):
            pass  # so that the connection knows the statement
        proxy.half_open()
        task = asyncio.create_task(take(locks, "key", ttl=300))
        await until(lambda: get_or_none(others, "key"), SOON)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.heal()

        await until_free(others, "key")


async def test_a_request_that_was_cancelled_before_it_was_sent_leaves_nothing(
    url: str, proxy: ThreadedFaultProxy
) -> None:
    async with (
        Locks.from_url(proxy.url(url), settings=STEADY) as locks,
        Locks.from_url(url, settings=STEADY) as others,
    ):
        proxy.reset()
        proxy.delay(0.05)  # so that it is cancelled while the connection is still being made
        for _ in range(5):
            task = asyncio.create_task(take(locks, "key", ttl=300))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        proxy.heal()
        async with locks.acquire("another", wait=SOON):
            pass

        await until_free(others, "key")


async def test_a_release_whose_reply_was_lost_still_calls_the_next(
    kind: str, url: str, proxy: ThreadedFaultProxy
) -> None:
    settings = Settings(session_ttl=30, store_wait=STORE_WAIT, recheck_interval=20, stuck_work="report")
    async with Locks.from_url(proxy.url(url), settings=settings) as locks:
        lease = await locks.acquire("key", ttl=300)
        waiter = asyncio.create_task(take(locks, "key", wait=30))
        (next_owner,) = await queue_of(locks, "key", 1)
        proxy.drop_replies(1, containing=next_owner.encode())

        async with no_longer_than(SOON):
            await lease.release()
            granted = await waiter

        assert proxy.fired["drop_replies"] == 1
        assert granted.owner == next_owner
        assert granted.fence > lease.fence
        if kind == "postgres":  # which counts; Redis goes by the clock
            assert granted.fence == lease.fence + 1
        async with observing(url) as observer:
            assert await observer.last_fence() == granted.fence
        await granted.release()
        await until_free(locks, "key")


async def test_a_release_whose_reply_was_lost_and_cannot_be_repeated_leaves_nothing_held(
    url: str, proxy: ThreadedFaultProxy, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        Locks.from_url(proxy.url(url), settings=STEADY) as locks,
        Locks.from_url(url, settings=STEADY) as others,
    ):
        session_requests = locks._store_client.store.locks.session_requests
        looks = 0

        async def count_belongings(session: str) -> Sequence[tuple[str, str]]:
            nonlocal looks
            found = await session_requests(session)
            looks += 1
            return found

        monkeypatch.setattr(locks._store_client.store.locks, "session_requests", count_belongings)
        lease = await locks.acquire("key", ttl=300)
        waiter = asyncio.create_task(take(others, "key", wait=30))
        (next_owner,) = await queue_of(others, "key", 1)
        await on_one_connection(locks)
        # All replies, as it may have a second connection open, over which the release could be repeated.
        proxy.drop_replies(1000)
        proxy.refuse()

        await lease.release()
        assert proxy.fired["drop_replies"] >= 1
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


@pytest.mark.parametrize("cut_after", ["waiting", "granted"])
async def test_connections_reset_in_the_middle_lose_and_keep_nothing(
    kind: str, url: str, proxy: ThreadedFaultProxy, cut_after: str
) -> None:
    # Every cut may hit the same few requests again: they shall have the time to outlast them all.
    settings = Settings(session_ttl=30, store_wait=10, recheck_interval=0.5, stuck_work="report")
    async with Locks.from_url(proxy.url(url), settings=settings) as locks:
        fences: list[int] = []

        async def work() -> None:
            for _ in range(5):
                async with locks.acquire("key", wait=30) as lease:
                    fences.append(lease.fence)

        async def disturb() -> None:
            for cuts in range(1, 6):
                proxy.drop_replies(1, containing=REPLIES[kind][cut_after])
                while proxy.fired["drop_replies"] < cuts:
                    if len(fences) == 50:
                        return
                    await asyncio.sleep(0.001)
                proxy.reset()

        async with no_longer_than(20):
            await asyncio.gather(disturb(), *(work() for _ in range(10)))
        assert len(fences) == 50
        assert fences == sorted(set(fences))
        assert proxy.fired["drop_replies"] >= CUTS[kind]
        await until_free(locks, "key")
