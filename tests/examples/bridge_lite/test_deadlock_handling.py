"""Deadlock handling: 3 cases."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from bridge.core.errors import DeadlockError, is_deadlock_error
from bridge.core.operations import update_multiple_intents
from bridge.core.retry import retry_on_deadlock
from tests.examples.bridge_lite.intents import create_test_intent, stored

if TYPE_CHECKING:
    from uuid import UUID

    from bridge.factory import Bridge


async def test_deadlock_automatic_retry(bridge: Bridge, other: Bridge) -> None:
    one, two = await create_test_intent(bridge), await create_test_intent(bridge)
    met = asyncio.Barrier(2)
    attempts = 0

    @retry_on_deadlock()
    async def cross(program: Bridge, first: UUID, second: UUID, field: str) -> None:
        nonlocal attempts
        attempts += 1
        async with program.data_bridge.lock_intent_for_update(first) as intent:
            if attempts <= 2:
                await met.wait()  # both hold their first lock, so the second attempt to lock closes a cycle
            async with program.data_bridge.lock_intent_for_update(second) as another:
                intent.payload[field] = another.payload[field] = True

    await asyncio.gather(cross(bridge, one.id, two.id, "a"), cross(other, two.id, one.id, "b"))

    assert attempts == 3
    for intent in (one, two):
        assert (await stored(bridge, intent.id)).payload == {"a": True, "b": True}


async def test_deadlock_sorted_lock_order_prevention(bridge: Bridge, other: Bridge) -> None:
    ids = [(await create_test_intent(bridge)).id for _ in range(5)]

    async def update_randomly_ordered(number: int) -> None:
        shuffled = random.sample(ids, len(ids))
        program = bridge if number % 2 else other
        await update_multiple_intents(shuffled, {"payload": {"updated": number}}, program.data_bridge)

    results = await asyncio.gather(*map(update_randomly_ordered, range(10)), return_exceptions=True)

    assert results == [None] * 10
    found = [await stored(bridge, one) for one in ids]
    assert len({str(intent.payload) for intent in found}) == 1, "the updates are all or nothing"
    assert {intent.version for intent in found} == {10}


async def test_deadlock_max_retries_exhausted(bridge: Bridge, other: Bridge) -> None:
    one, two = await create_test_intent(bridge), await create_test_intent(bridge)
    attempts = 0

    @retry_on_deadlock(max_retries=2, base_delay=0.01)
    async def guaranteed_deadlock() -> None:
        """Hold the first intent while another program holds the second and waits for the first, each time."""
        nonlocal attempts
        attempts += 1
        has_second = asyncio.Event()

        async def opponent() -> None:
            async with other.data_bridge.lock_intent_for_update(two.id):
                has_second.set()
                async with other.data_bridge.lock_intent_for_update(one.id):
                    pass

        async with bridge.data_bridge.lock_intent_for_update(one.id):
            waiting = asyncio.create_task(opponent())
            opponents.append(waiting)
            await has_second.wait()
            while not (await bridge.app.locks.get(f"record:IntentModel:{one.id}")).waiters:
                await asyncio.sleep(0.01)
            async with bridge.data_bridge.lock_intent_for_update(two.id):
                pytest.fail("no deadlock")

    opponents: list[asyncio.Task[None]] = []
    with pytest.raises(DeadlockError, match="after 2 deadlock retries") as caught:
        await guaranteed_deadlock()
    await asyncio.gather(*opponents)

    assert attempts == 2
    assert caught.value.deadlock_info["max_retries"] == 2
    assert caught.value.deadlock_info["last_error"]
    assert is_deadlock_error(caught.value)
    assert (await stored(bridge, one.id)).version == 0
