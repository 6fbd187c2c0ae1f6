"""Flaws of "seen already" designs from the field, each as a check that the flawed design fails and Interlock passes.

The flawed designs are kept here in their plainest form, so that every check is seen to bite.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from interlock import Claims, ClaimState
from interlock.backends import from_url
from interlock.ports.claims import Claimed, ClaimOutcome, ClaimRequest
from interlock.ports.sessions import SessionCard
from interlock.settings import Settings
from interlock.testing.clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# -- F-A1: seen and marked in two steps lets two pods both work --------------------------------------------------------


class TwoStepStore:
    """``if not await is_seen(key): await mark_seen(key); work()``, with the round trips that a server costs."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    async def is_seen(self, key: str) -> bool:
        await asyncio.sleep(0)
        return key in self._seen

    async def mark_seen(self, key: str) -> None:
        await asyncio.sleep(0)
        self._seen.add(key)


async def workers_on_one_delivery(pods: list[Callable[[str], Awaitable[bool]]]) -> int:
    """How many of several pods believe that a delivery is theirs, all of them asking at once."""
    return sum(await asyncio.gather(*(may_work("delivery-1") for may_work in pods)))


async def test_f_a1_check_and_mark_are_one_step(store_url: str) -> None:
    shared = TwoStepStore()

    async def check_then_mark(key: str) -> bool:
        if await shared.is_seen(key):
            return False
        await shared.mark_seen(key)
        return True

    assert await workers_on_one_delivery([check_then_mark] * 5) == 5, "the check does not bite"

    async with Claims.from_url(store_url) as one, Claims.from_url(store_url) as two:

        def pod(once: Claims) -> Callable[[str], Awaitable[bool]]:
            async def may_work(key: str) -> bool:
                return (await once.claim(key)).new

            return may_work

        pods = [pod(one)] * 5 if store_url == "memory://" else [pod(one), pod(two)] * 3
        assert await workers_on_one_delivery(pods) == 1


# -- F-A6: eviction drops half of the keys at once, and the time to live is ignored ------------------------------------


class HalvingStore:
    """Marks in a dict; when it is full, half of them go. What is in it counts as seen for ever."""

    def __init__(self, max_size: int) -> None:
        self._seen: OrderedDict[str, float] = OrderedDict()
        self._max_size = max_size

    def new(self, key: str, ttl: float, now: float) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = now + ttl
        if len(self._seen) > self._max_size:
            for _ in range(self._max_size // 2):
                self._seen.popitem(last=False)
        return True


async def test_f_a6_nothing_is_dropped_before_its_time_and_everything_after_it(store_url: str) -> None:
    many, hour = 2000, 3600.0

    flawed = HalvingStore(max_size=1000)
    assert all(flawed.new(f"key-{n}", hour, 0.0) for n in range(many))
    assert sum(flawed.new(f"key-{n}", hour, 1.0) for n in range(many)) > many // 4, "the check does not bite: dropped"
    assert not flawed.new(f"key-{many - 1}", hour, 2 * hour), "the check does not bite: kept"

    clock = VirtualClock()
    store = from_url(store_url, settings=Settings(), clock=clock)
    await store.open()
    try:
        await store.sessions.begin(SessionCard("s", "host", 1, "test"), 100 * hour)

        async def new(key: str) -> bool:
            answer = await store.claims.claim(ClaimRequest(key, f"s.{key}.{clock.now()}", "s", 60.0, hour))
            if isinstance(answer, Claimed):
                done = ClaimOutcome(key, f"s.{key}.{clock.now()}", ClaimState.DONE, None, "", 0.0, hour)
                assert (await store.claims.finish(done)).done
            return isinstance(answer, Claimed)

        async def how_many_new() -> int:
            return sum(await asyncio.gather(*(new(f"key-{n}") for n in range(many))))

        assert await how_many_new() == many
        clock.advance(hour - 1)
        await store.sessions.sweep()
        assert await how_many_new() == 0, "something was dropped before its time"
        clock.advance(1)
        assert await how_many_new() == many, "something was kept after its time"
    finally:
        await store.close()


# -- F-D1: `status != 'processing'` claims finished targets; F-D2: no owner, no expiry ---------------------------------


class StatusColumn:
    """``UPDATE targets SET status = 'processing' WHERE id = ? AND status != 'processing'``; rowcount tells."""

    def __init__(self) -> None:
        self.status = "pending"

    async def claim(self) -> bool:
        claimed = self.status != "processing"
        self.status = "processing"
        return claimed


async def test_f_d1_a_finished_target_is_not_claimed_again(store_url: str) -> None:
    flawed = StatusColumn()
    assert await flawed.claim()
    flawed.status = "completed"
    assert await flawed.claim(), "the check does not bite"

    async with Claims.from_url(store_url) as once:
        async with once.claim("target-1") as claim:
            assert claim.new
        assert (await once.claim("target-1")).state is ClaimState.DONE

        failed = await once.claim("target-2")
        await failed.fail("no luck")
        assert (await once.claim("target-2")).new, "what failed can be claimed"

        await once.forget("target-1", reason="reset", by="an operator")
        assert (await once.claim("target-1")).new, "what was reset can be claimed"


async def test_f_d2_a_crash_does_not_leave_a_target_processing_for_ever(store_url: str) -> None:
    flawed = StatusColumn()
    assert await flawed.claim()
    assert not await flawed.claim(), "the check does not bite: its claimant is gone, and nobody can tell"

    clock = VirtualClock()
    store = from_url(store_url, settings=Settings(), clock=clock)
    await store.open()
    try:
        for session in "ab":
            await store.sessions.begin(SessionCard(session, "host", 1, "test"), 15.0)
        assert isinstance(await store.claims.claim(ClaimRequest("target", "a.1", "a", 3600.0, 86400.0)), Claimed)
        for _ in range(3):  # a is silent, b renews
            clock.advance(5.0)
            await store.sessions.renew("b", 15.0)
        answer: Any = await store.claims.claim(ClaimRequest("target", "b.1", "b", 3600.0, 86400.0))
        assert isinstance(answer, Claimed), "15 s after the crash it is free, whatever its lease was"
        assert answer.attempt == 2
    finally:
        await store.close()


# -- F-D6: a test that passes for the broken code too -----------------------------------------------------------------


async def test_f_d6_the_check_for_one_winner_fails_for_code_that_has_two(store_url: str) -> None:
    status = "pending"

    async def read_then_write(_key: str) -> bool:
        nonlocal status
        seen = status
        await asyncio.sleep(0)
        status = "processing"
        return seen == "pending"

    assert await workers_on_one_delivery([read_then_write] * 5) != 1

    async with Claims.from_url(store_url) as once:
        began = time.monotonic()

        async def claim(key: str) -> bool:
            return (await once.claim(key)).new

        assert await workers_on_one_delivery([claim] * 50) == 1
        assert time.monotonic() - began < 10, "losers are told at once, and skip"
