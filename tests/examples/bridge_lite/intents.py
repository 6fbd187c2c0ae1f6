"""Intents for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.core.enums import IntentStatusEnum, PhilosophicalActor
from bridge.core.models import IntentModel, ReEvaluationRequest

if TYPE_CHECKING:
    from uuid import UUID

    from bridge.factory import Bridge

__all__ = ["correction", "create_test_intent", "stored"]

_WAY = {
    IntentStatusEnum.RECEIVED: [],
    IntentStatusEnum.NORMALIZED: [IntentStatusEnum.NORMALIZED],
    IntentStatusEnum.PROCESSED: [IntentStatusEnum.PROCESSED],
    IntentStatusEnum.CORRECTED: [IntentStatusEnum.PROCESSED, IntentStatusEnum.CORRECTED],
    IntentStatusEnum.COMPLETED: [IntentStatusEnum.NORMALIZED, IntentStatusEnum.COMPLETED],
    IntentStatusEnum.FAILED: [IntentStatusEnum.FAILED],
}


async def create_test_intent(
    bridge: Bridge, status: IntentStatusEnum = IntentStatusEnum.RECEIVED, **fields: Any
) -> IntentModel:
    """Create an intent, and take it to a status by legal transitions."""
    intent = await bridge.data_bridge.create_intent(IntentModel(**fields))
    for step in _WAY[status]:
        intent = await bridge.data_bridge.intents.transition(str(intent.id), step)
    return intent


async def stored(bridge: Bridge, intent_id: UUID) -> IntentModel:
    found = await bridge.data_bridge.get_intent(intent_id)
    assert found is not None
    return found


def correction(
    intent_id: UUID,
    diff: dict[str, Any],
    source: PhilosophicalActor = PhilosophicalActor.YUNO,
    **more: Any,
) -> ReEvaluationRequest:
    more.setdefault("reason", "a correction")
    return ReEvaluationRequest(intent_id=intent_id, diff=diff, source=source, **more)
