"""Performance: 3 cases, in a short and a long form. benchmarks/ has the figures."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from bridge.core.enums import IntentStatusEnum
from bridge.core.operations import update_intent_status
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge

BATCH = 100


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.full)])
async def test_concurrent_updates_throughput(bridge: Bridge, count: int) -> None:
    intents = await asyncio.gather(*(create_test_intent(bridge) for _ in range(count)))
    ids = [intent.id for intent in intents]

    begun = time.monotonic()
    for start in range(0, count, BATCH):
        await asyncio.gather(
            *(
                update_intent_status(one, IntentStatusEnum.PROCESSED, bridge.data_bridge, bridge.audit_logger)
                for one in ids[start : start + BATCH]
            )
        )
    throughput = count / (time.monotonic() - begun)

    assert throughput >= 100, f"{throughput:.1f} updates/s"
    assert {intent.version for intent in [await stored(bridge, one) for one in ids[:5]]} == {1}


async def test_reeval_under_contention(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)

    begun = time.monotonic()
    answers = await asyncio.gather(
        *(
            bridge.reeval_client.reeval(correction(intent.id, {"payload": {f"field_{number}": number}}))
            for number in range(50)
        )
    )
    mean = (time.monotonic() - begun) / 50

    assert not any(one.already_applied for one in answers)
    assert len((await stored(bridge, intent.id)).correction_history) == 50
    assert mean < 0.2, f"{mean * 1000:.0f} ms"


@pytest.mark.parametrize("count", [50, pytest.param(100, marks=pytest.mark.full)])
async def test_lock_acquisition_latency(bridge: Bridge, count: int) -> None:
    ids = [(await create_test_intent(bridge)).id for _ in range(count)]
    latencies: list[float] = []

    for one in ids:
        begun = time.monotonic()
        async with bridge.data_bridge.lock_intent_for_update(one):
            pass
        latencies.append(time.monotonic() - begun)

    latencies.sort()
    p95 = latencies[int(count * 0.95)]
    assert p95 < 0.05, f"P95 {p95 * 1000:.1f} ms"
