"""Pipeline order guarantee: 2 cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import BaseBridge, FeedbackBridge, InputBridge, NormalizeBridge, OutputBridge
from bridge.core.enums import AuditEventType, IntentStatusEnum
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.core.models import IntentModel
    from bridge.factory import Bridge


async def test_order_of_the_bridges_and_their_statuses(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, payload={"to": " eva "})
    bridge_set = BridgeSet([InputBridge(), NormalizeBridge(), FeedbackBridge(), OutputBridge()])

    result = await bridge_set.execute_with_lock(intent.id)

    assert (result.status, result.payload) == (IntentStatusEnum.COMPLETED, {"to": "eva"})
    events = await bridge.audit_logger.events(intent.id)
    bridges = [(one.event.value, one.bridge_type) for one in events if one.bridge_type]
    assert bridges == [
        (f"bridge_{what}", name)
        for name in ("input", "normalize", "feedback", "output")
        for what in ("started", "completed")
    ]
    changes = [one.payload for one in events if one.event is AuditEventType.STATUS_CHANGED]
    assert [one["old_status"] for one in changes] == ["received", "normalized", "processed"]
    assert [one["new_status"] for one in changes] == ["normalized", "processed", "completed"]


async def test_order_is_kept_when_a_correction_arrives_in_between(bridge: Bridge, other: Bridge) -> None:
    seen: list[tuple[str, dict[str, object]]] = []

    class Watching(NormalizeBridge):
        async def execute(self, intent: IntentModel) -> IntentModel:
            seen.append((intent.status, dict(intent.payload)))
            await other.reeval_client.reeval(correction(intent.id, {"payload.to": "eva"}))
            return await super().execute(intent)

    class After(BaseBridge):
        async def execute(self, intent: IntentModel) -> IntentModel:
            seen.append((intent.status, dict(intent.payload)))
            return intent

    intent = await create_test_intent(bridge, payload={"to": "ann"})

    result = await BridgeSet([InputBridge(), Watching(), After(), OutputBridge()]).execute_with_lock(intent.id)

    # The next bridge sees the correction; the status stays corrected until the output.
    assert seen == [("normalized", {"to": "ann"}), ("corrected", {"to": "eva"})]
    assert (result.status, result.payload) == (IntentStatusEnum.COMPLETED, {"to": "eva"})
    assert len((await stored(bridge, intent.id)).correction_history) == 1
