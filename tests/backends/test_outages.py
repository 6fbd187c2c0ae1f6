"""A server that goes away raises StoreUnavailableError in bounded time and works again when it is back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from interlock import FOREVER, Locks, Settings
from interlock.clock import SystemClock
from interlock.errors import LeaseLostError, StoreUnavailableError
from interlock.testing.lookup import get_or_none
from tests.backends.outages import (
    SHORT,
    SMALL,
    SOON,
    STEADY,
    STORE_WAIT,
    Events,
    Outage,
    in_every_way,
    no_longer_than,
    observing,
    own_threads,
    queue_of,
    take,
    until,
    until_free,
    when,
)

if TYPE_CHECKING:
    from interlock import Lease

pytestmark = pytest.mark.full

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
async def test_opening_waits_for_a_store_that_is_away_and_says_so(outage: Outage, events: Events) -> None:
    locks = Locks.from_url(outage.url, session_ttl=30, store_wait=20)

    await outage.begin()
    opening = asyncio.create_task(locks.open())
    await until(lambda: events["store_unavailable"])
    await outage.end()

    await opening
    async with locks.acquire("key", wait=SOON) as lease:
        lease.ensure()
    await locks.close()
    assert len(events["store_unavailable"]) == 1
    assert events["store_available"]


@when("killed", "blackhole", "reset")
async def test_closing_takes_bounded_time_and_leaves_no_connection(outage: Outage, url: str) -> None:
    locks = Locks.from_url(outage.url, settings=SHORT)
    await locks.open()
    lease = await locks.acquire("key")

    await outage.begin()
    async with no_longer_than(SHORT.session_ttl + STORE_WAIT + SMALL):
        await locks.close()
    await outage.end()

    assert lease.lost
    async with observing(url) as observer:

        async def alone() -> bool:
            return await observer.connections() == 0

        await until(alone, SOON)


# -- holding -----------------------------------------------------------------------------------------------------


@when("killed", "blackhole")
async def test_a_lease_survives_a_short_outage(outage: Outage, events: Events) -> None:
    settings = Settings(session_ttl=10, store_wait=STORE_WAIT, recheck_interval=0.5, stuck_work="report")
    async with (
        Locks.from_url(outage.url, settings=settings) as locks,
        locks.acquire("key", ttl=10) as lease,
    ):
        session = lease._session
        await outage.begin()
        await until(lambda: bool(events["lock_renewal_failed"] and events["session_renewal_failed"]))
        await outage.end()
        deadlines = lease._deadline, session.deadline
        await until(lambda: lease._deadline > deadlines[0] and session.deadline > deadlines[1])

        lease.ensure()
        view = await get_or_none(locks, "key")
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
            async with locks.acquire("key", ttl=300) as lease:
                entered.set()
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    # The deadline keeps a margin before the store's own end of the session.
                    ends = lease._session.deadline + SHORT.session_margin
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


# -- releasing ---------------------------------------------------------------------------------------------------


@when("killed", "blackhole", "half_open")
async def test_a_release_that_fails_is_logged_and_made_good(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        lease = await locks.acquire("key", ttl=300)

        await outage.begin()
        async with no_longer_than(2 * STORE_WAIT + SMALL):
            await lease.release()
        (logged,) = events["lock_release_failed"]
        assert logged.fields["key"] == "key"
        await outage.end()

        await until_free(locks, "key")
        assert not lease._session.lost  # so it was given back, and did not just run out with its session


@when("reset")
async def test_leaving_the_block_during_an_outage_raises_nothing(outage: Outage, events: Events) -> None:
    async with Locks.from_url(outage.url, settings=STEADY) as locks:
        async with locks.acquire("key", ttl=300):
            await outage.begin()
        assert events["lock_release_failed"]
        await outage.end()

        await until_free(locks, "key")


# -- waiting -----------------------------------------------------------------------------------------------------


@in_every_way
async def test_waiters_stay_in_order_through_a_restart(outage: Outage) -> None:
    async with (
        Locks.from_url(outage.url, settings=STEADY) as locks,
        Locks.from_url(outage.url, settings=STEADY) as others,
    ):
        holder = await locks.acquire("key", ttl=300)
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
async def test_waiters_outlast_an_outage_that_ends_their_sessions(outage: Outage, url: str, events: Events) -> None:
    async with (
        Locks.from_url(outage.url, settings=SHORT) as locks,
        Locks.from_url(outage.url, settings=SHORT) as others,
    ):
        holder = await locks.acquire("key", ttl=300)
        async with observing(url) as observer:
            # Who is asking when an outage begins may give up after store_wait; here all shall sit and wait.
            await until(lambda: observer.hear(locks, others))
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

        async with no_longer_than(SOON + SHORT.session_ttl):
            fences = await asyncio.gather(*waiters)
        assert all(fence > holder.fence for fence in fences)
        assert len(set(fences)) == 5
        await until_free(locks, "key")
