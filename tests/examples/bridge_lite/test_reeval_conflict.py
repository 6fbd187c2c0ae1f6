"""Re-evaluation conflict: 2 cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from bridge.api.reeval import reeval_intent_optimistic
from bridge.core.concurrency import ConcurrencyConfig
from bridge.core.enums import AuditEventType
from bridge.core.errors import ConcurrencyConflictError
from bridge.factory import open_bridge
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge


async def test_reeval_conflict_is_retried_until_all_are_applied(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)
    count = 30

    answers = await asyncio.gather(
        *(
            (bridge if number % 2 else other).reeval_client.reeval(
                correction(intent.id, {"payload": {"last": number, f"field_{number}": number}})
            )
            for number in range(count)
        )
    )

    assert not any(one.already_applied for one in answers)
    final = await stored(bridge, intent.id)
    assert final.version == count
    assert [final.payload[f"field_{number}"] for number in range(count)] == list(range(count))
    events = [one for one in await bridge.audit_logger.events(intent.id) if one.event is AuditEventType.REEVALUATED]
    assert {one.payload["correction_id"] for one in events} == {one.correction_id for one in answers}
    # A loser queued for the lock, which its entry says.
    retried = [one.payload for one in events if one.payload["retry_count"]]
    assert all(payload["starvation"] for payload in retried)


async def test_reeval_conflict_raises_only_when_the_lock_times_out(url: str, bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    config = ConcurrencyConfig(DEADLOCK_TIMEOUT=0.1, MAX_RETRIES=2, RETRY_BACKOFF_BASE=0.01, RETRY_JITTER=0)
    hasty = open_bridge(url, config=config)
    async with hasty.app:
        async with bridge.data_bridge.lock_intent_for_update(intent.id):
            with pytest.raises(ConcurrencyConflictError, match="after 2 attempts"):
                await reeval_intent_optimistic(correction(intent.id, {"payload.a": 1}), hasty.data_bridge)
        answer = await reeval_intent_optimistic(correction(intent.id, {"payload.a": 1}), hasty.data_bridge)

    assert not answer.already_applied
    assert (await stored(bridge, intent.id)).payload == {"a": 1}
