"""A program that contends with others for the same intents, in a process of its own."""

from __future__ import annotations

import asyncio
import random
from typing import Any
from uuid import UUID

from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.operations import update_multiple_intents
from bridge.core.retry import retry_on_deadlock
from bridge.factory import Bridge, open_bridge
from interlock.testing.processes import wait_at_barrier_async
from tests.examples.bridge_lite.intents import correction

__all__ = ["contend"]


async def contend(url: str, number: int, intent_ids: list[str], count: int) -> dict[str, Any]:
    """Correct, lock and update the same intents as the others, and return how many corrections were new."""
    ids = [UUID(one) for one in intent_ids]
    config = ConcurrencyConfig(DEADLOCK_TIMEOUT=60, MAX_RETRIES=3)
    async with open_bridge(url, config=config) as bridge:
        await wait_at_barrier_async()

        async def own(turn: int) -> bool:
            request = correction(ids[0], {"payload": {f"p{number}t{turn}": turn}})
            return not (await bridge.reeval_client.reeval(request)).already_applied

        async def shared(turn: int) -> bool:
            request = correction(ids[0], {"payload": {f"all{turn}": turn}})
            return not (await bridge.reeval_client.reeval(request)).already_applied

        new = await asyncio.gather(*map(own, range(count)), *map(shared, range(count)))
        for _ in range(count):
            await _cross(bridge, *random.sample(ids[1:], 2))
            await _update(bridge, random.sample(ids[1:], 3), number)
    return {"new": sum(new)}


@retry_on_deadlock(max_retries=50, base_delay=0.01)
async def _cross(bridge: Bridge, first: UUID, second: UUID) -> None:
    """Add one in two intents, locked in any order: deadlocks are likely, and retried."""
    async with bridge.data_bridge.lock_intent_for_update(first) as one:
        await asyncio.sleep(0.001)
        async with bridge.data_bridge.lock_intent_for_update(second) as two:
            for intent in (one, two):
                intent.payload["count"] = intent.payload.get("count", 0) + 1


@retry_on_deadlock(max_retries=50, base_delay=0.01)
async def _update(bridge: Bridge, ids: list[UUID], number: int) -> None:
    """Update several intents. Among themselves such updates do not deadlock, but with locks in any order they do."""
    await update_multiple_intents(ids, {"type": f"by {number}"}, bridge.data_bridge)
