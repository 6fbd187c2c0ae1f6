"""Re-evaluation idempotency: 3 cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bridge.core.corrections import generate_correction_id, is_correction_applied
from bridge.core.enums import AuditEventType, PhilosophicalActor
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge


async def test_reeval_the_same_diff_twice_is_applied_once(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge, payload={"to": "ann"})

    first = await bridge.reeval_client.reeval(correction(intent.id, {"payload": {"to": "eva"}}))
    again = await other.reeval_client.reeval(correction(intent.id, {"payload.to": "eva"}))

    assert (first.already_applied, again.already_applied) == (False, True)
    assert first.correction_id == again.correction_id == generate_correction_id(intent.id, {"payload": {"to": "eva"}})
    assert again.applied_at == first.applied_at, "the original time, not now"
    assert again.correction_count == 1
    final = await stored(bridge, intent.id)
    assert is_correction_applied(final, first.correction_id)
    assert final.version == 1


async def test_reeval_the_same_diff_at_the_same_time_is_applied_once(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)

    answers = await asyncio.gather(
        *(
            (bridge if number % 2 else other).reeval_client.reeval(correction(intent.id, {"payload.a": 1}))
            for number in range(20)
        )
    )

    assert sum(not one.already_applied for one in answers) == 1
    assert len({(one.correction_id, one.applied_at) for one in answers}) == 1
    events = await bridge.audit_logger.events(intent.id)
    assert sum(one.event is AuditEventType.REEVALUATED for one in events) == 1


async def test_reeval_there_and_back_again_needs_a_key(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)

    plain = [
        (await bridge.reeval_client.reeval(correction(intent.id, {"payload.x": value}))).already_applied
        for value in ("A", "B", "A")
    ]
    named = await bridge.reeval_client.reeval(
        correction(intent.id, {"payload.x": "A"}, PhilosophicalActor.KANA, key="ticket-7")
    )

    assert plain == [False, False, True]
    assert not named.already_applied
    assert (await stored(bridge, intent.id)).payload == {"x": "A"}
