"""A replica takes over: work goes on, fences grow, and what the replica had not heard of yet does no harm."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import redis

from interlock import Claims, ClaimState, Locks, Settings
from interlock.errors import LeaseLostError
from interlock.testing.clock import until
from interlock.testing.lookup import get_or_none
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = Settings(session_ttl=3, store_wait=2, recheck_interval=0.5, stuck_work="report")


class Pair:
    """A primary, its replica, and an address that leads to whichever is the primary."""

    def __init__(self, primary: RedisServer, replica: RedisServer, proxy: ThreadedFaultProxy) -> None:
        self._primary = primary
        self._replica = replica
        self._proxy = proxy
        self.url = proxy.url(primary.url())

    async def in_step(self) -> None:
        """Wait until the replica has everything."""
        with redis.Redis.from_url(self._primary.url()) as client:
            assert await asyncio.to_thread(client.wait, 1, 10_000) == 1

    def lose_touch(self) -> None:
        """What the primary takes on from now on never reaches the replica."""
        with redis.Redis.from_url(self._replica.url()) as client:
            client.replicaof("NO", "ONE")

    def fail_over(self) -> None:
        """The primary dies, the replica takes its place."""
        self._primary.kill()
        self.lose_touch()
        self._proxy.point_at("127.0.0.1", self._replica.port)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with _server() as primary, _server({"replicaof": f"127.0.0.1 {primary.port}"}) as replica:
        with redis.Redis.from_url(primary.url()) as client:
            client.set("written", "by the primary")
            assert client.wait(1, 20_000) == 1, "the replica does not follow"
        with ThreadedFaultProxy("127.0.0.1", primary.port) as proxy:
            yield Pair(primary, replica, proxy)


@contextmanager
def _server(settings: dict[str, str] | None = None) -> Iterator[RedisServer]:
    with RedisServer(settings={"repl-diskless-sync-delay": "0", **(settings or {})}) as server:
        yield server


async def test_a_lease_that_the_replica_knew_of_survives(pair: Pair) -> None:
    async with Locks.from_url(pair.url, settings=SETTINGS) as locks, locks.acquire("key") as lease:
        await pair.in_step()
        await asyncio.to_thread(pair.fail_over)

        async def renewed() -> bool:
            view = await get_or_none(locks, "key")
            return view is not None and view.holder is not None and view.holder.owner == lease.owner

        await until(renewed)
        assert not lease.lost


async def test_a_lease_that_the_replica_did_not_know_of_is_lost_and_fences_grow(pair: Pair) -> None:
    async with Locks.from_url(pair.url, settings=SETTINGS) as locks:
        async with locks.acquire("before"):
            pass
        await pair.in_step()
        await asyncio.to_thread(pair.lose_touch)
        fences = []
        with pytest.raises(LeaseLostError):  # noqa: PT012
            async with locks.acquire("key") as lease:
                fences.append(lease.fence)
                await asyncio.to_thread(pair.fail_over)
                await asyncio.sleep(60)
        for _ in range(3):
            async with locks.acquire("key", wait=10) as lease:
                fences.append(lease.fence)

        assert all(later > earlier for earlier, later in itertools.pairwise(fences))


async def test_claims_go_on_and_what_the_replica_knew_is_not_repeated(pair: Pair) -> None:
    async with Claims.from_url(pair.url, settings=SETTINGS) as once:
        async with once.claim("delivery-1") as claim:
            claim.result = "done before"
        await pair.in_step()
        await asyncio.to_thread(pair.fail_over)

        again = await once.claim("delivery-1")
        assert (again.state, again.result) == (ClaimState.DONE, "done before")
        async with once.claim("delivery-2") as other:
            assert other.new
