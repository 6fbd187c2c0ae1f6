"""Redis that goes away raises StoreUnavailableError in bounded time and works again when it is back, with or without
its data."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import redis

from interlock import FOREVER, LeaseLostError, Locks, Settings, StoreUnavailableError
from interlock.backends.redis import messages
from interlock.clock import SystemClock
from interlock.testing.proxy import ThreadedFaultProxy
from interlock.testing.servers import RedisServer
from tests.backends.outages import (
    SHORT,
    SMALL,
    SOON,
    STEADY,
    STORE_WAIT,
    Events,
    Outage,
    cut_off,
    in_every_way,
    no_longer_than,
    own_threads,
    queue_of,
    take,
    until,
    until_free,
    when,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from interlock import Lease


@pytest.fixture(scope="module")
def running() -> Iterator[RedisServer]:
    """A Redis of this module's own, which its tests may end. It keeps what it acknowledged."""
    with RedisServer(appendonly=True) as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> Iterator[RedisServer]:
    """The same, empty."""
    running.flush()
    yield running
    running.start()


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[ThreadedFaultProxy]:
    with ThreadedFaultProxy("127.0.0.1", server.port) as proxy:
        yield proxy


@pytest.fixture
def outage(request: pytest.FixtureRequest, server: RedisServer, proxy: ThreadedFaultProxy) -> Outage:
    url = server.url()
    through = proxy.url(url)
    return {
        "stopped": Outage(url, server.stop, server.start, url),
        "killed": Outage(url, server.kill, server.start, url),
        "blackhole": Outage(through, proxy.blackhole, proxy.heal, url),
        "half_open": Outage(through, proxy.half_open, proxy.heal, url),
        "reset": Outage(through, lambda: cut_off(proxy), proxy.heal, url),
    }[request.param]


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    """A way to the server that is not ours."""
    with redis.Redis.from_url(server.url(), decode_responses=True) as client:
        yield client


# -- asking ------------------------------------------------------------------------------------------------------


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
    with redis.Redis.from_url(outage.direct_url) as client:
        await until(lambda: len(client.client_list()) == 1, SOON)


# -- holding -----------------------------------------------------------------------------------------------------


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
                    times.append((lease, SystemClock().monotonic(), ends))

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


async def holder_is_told_and_work_goes_on(url: str, forget: Callable[[], None]) -> None:
    """Hold a key while the server forgets everything: the body is stopped, and the next fence is larger."""
    async with Locks.from_url(url, settings=SHORT) as locks:
        entered = asyncio.Event()
        fences: list[int] = []

        async def body() -> None:
            async with locks.acquire("key", ttl_seconds=300) as lease:
                fences.append(lease.fence)
                entered.set()
                await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(body())
        await entered.wait()
        await asyncio.to_thread(forget)
        async with no_longer_than(SHORT.session_seconds + SMALL):
            with pytest.raises(LeaseLostError):
                await task

        async with locks.acquire("key", wait=SOON) as newer:
            assert newer.fence > fences[0]
        await until_free(locks, "key")


async def test_a_flushed_server_tells_holders_and_fences_keep_growing(server: RedisServer) -> None:
    await holder_is_told_and_work_goes_on(server.url(), server.flush)


async def test_a_server_that_restarts_without_its_data_tells_holders_and_fences_keep_growing() -> None:
    with RedisServer() as forgetful:

        def restart() -> None:
            forgetful.kill()
            forgetful.start()

        await holder_is_told_and_work_goes_on(forgetful.url(), restart)


async def test_waiters_outlast_a_flushed_server(server: RedisServer) -> None:
    async with Locks.from_url(server.url(), settings=SHORT) as locks:
        holder = await locks.acquire("key", ttl_seconds=300)
        waiters = [asyncio.create_task(take(locks, "key", wait=30)) for _ in range(3)]
        await queue_of(locks, "key", 3)
        server.flush()

        async with no_longer_than(SHORT.session_seconds + SOON):
            for _ in waiters:
                (done, *_), waiting = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
                lease = done.result()
                assert lease.fence > holder.fence
                waiters = list(waiting)
                await lease.release()


# -- releasing ---------------------------------------------------------------------------------------------------


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


# -- waiting -----------------------------------------------------------------------------------------------------


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
        holder = await locks.acquire("key", ttl_seconds=300)
        with redis.Redis.from_url(outage.direct_url) as client:
            # Both have told everyone to ask; here all shall sit and wait.
            await until(lambda: len(client.pubsub_channels()) == 2)
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


@when("blackhole", "half_open")
async def test_a_connection_for_messages_that_leads_nowhere_is_noticed(
    outage: Outage, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "_BEAT", 0.05)
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        with redis.Redis.from_url(outage.direct_url) as client:
            await until(lambda: len(client.pubsub_channels()) == 1)
            await outage.begin()
            await until(lambda: bool(events["listen_failed"]), STORE_WAIT + SMALL)
            await outage.end()
            await until(lambda: len(client.pubsub_channels()) == 1)
        async with locks.acquire("key", wait=SOON) as lease:
            lease.ensure()


# -- refusals that pass ------------------------------------------------------------------------------------------


async def test_scripts_that_were_flushed_are_loaded_again_and_nobody_notices(
    server: RedisServer, client: redis.Redis, events: Events
) -> None:
    async with Locks.from_url(server.url(), settings=STEADY) as locks:
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
    server: RedisServer, client: redis.Redis
) -> None:
    async with Locks.from_url(server.url(), settings=STEADY) as locks:
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


async def test_a_server_whose_memory_is_full_is_unavailable_but_takes_releases(
    server: RedisServer, client: redis.Redis
) -> None:
    async with Locks.from_url(server.url(), settings=STEADY) as locks:
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


async def test_nothing_that_matters_can_be_evicted_and_nothing_is_kept_of_a_key(
    server: RedisServer, client: redis.Redis
) -> None:
    async with Locks.from_url(server.url(), settings=STEADY) as locks:
        before = set(client.keys())
        lease = await locks.acquire("key")
        waiter = asyncio.create_task(take(locks, "key", wait=30))
        await queue_of(locks, "key", 1)
        assert {client.ttl(name) for name in client.scan_iter()} == {-1}
        await lease.release()
        await (await waiter).release()

        assert set(client.keys()) - before == {"interlock:default:fence", "interlock:default:ticket"}
