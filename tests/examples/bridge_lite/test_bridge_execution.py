"""Bridge execution: 8 cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import BaseBridge, FeedbackBridge, InputBridge, NormalizeBridge, OutputBridge
from bridge.core.enums import AuditEventType, ExecutionMode, IntentStatusEnum
from bridge.core.errors import BridgeExecutionError
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.core.models import IntentModel
    from bridge.factory import Bridge


class FailingBridge(BaseBridge):
    async def execute(self, intent: IntentModel) -> IntentModel:
        raise BridgeExecutionError("Test failure")


async def test_input_bridge_execution(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.RECEIVED)

    result = await InputBridge().execute(intent)

    assert result.status is IntentStatusEnum.NORMALIZED
    with pytest.raises(BridgeExecutionError, match="has no type") as failed:
        await InputBridge().execute(await create_test_intent(bridge, type=" "))
    assert failed.value.bridge_type == "input"


async def test_normalize_bridge_execution(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.NORMALIZED, type="Order ", payload={"a": [" x "]})

    result = await NormalizeBridge().execute(intent)

    assert result.status is IntentStatusEnum.PROCESSED
    assert (result.type, result.payload) == ("order", {"a": ["x"]})


async def test_feedback_bridge_execution(bridge: Bridge) -> None:
    async def reviewer(intent: IntentModel) -> dict[str, Any] | None:
        return {"payload.to": "eva"} if intent.payload.get("to") == "ann" else None

    fine = await create_test_intent(bridge, IntentStatusEnum.PROCESSED, payload={"to": "bob"})
    wrong = await create_test_intent(bridge, IntentStatusEnum.PROCESSED, payload={"to": "ann"})

    assert (await FeedbackBridge(reviewer).execute(fine)).status is IntentStatusEnum.PROCESSED
    corrected = await FeedbackBridge(reviewer).execute(wrong)
    assert (corrected.status, corrected.payload) == (IntentStatusEnum.CORRECTED, {"to": "eva"})


async def test_output_bridge_execution(bridge: Bridge) -> None:
    delivered: list[IntentModel] = []

    async def publish(intent: IntentModel) -> None:
        delivered.append(intent)

    for status in (IntentStatusEnum.PROCESSED, IntentStatusEnum.CORRECTED):
        intent = await create_test_intent(bridge, status)
        assert (await OutputBridge(publish).execute(intent)).status is IntentStatusEnum.COMPLETED
    assert len(delivered) == 2


async def test_bridge_execution_error_failfast(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    bridge_set = BridgeSet([InputBridge(), FailingBridge(), OutputBridge()])

    with pytest.raises(BridgeExecutionError, match="Test failure") as failed:
        await bridge_set.execute_with_lock(intent.id, mode=ExecutionMode.FAILFAST)

    assert failed.value.bridge_type == "FailingBridge"
    final = await stored(bridge, intent.id)
    assert final.status is IntentStatusEnum.FAILED
    events = [(one.event, one.bridge_type) for one in await bridge.audit_logger.events(intent.id) if one.bridge_type]
    assert events == [
        (AuditEventType.BRIDGE_STARTED, "input"),
        (AuditEventType.BRIDGE_COMPLETED, "input"),
        (AuditEventType.BRIDGE_STARTED, "FailingBridge"),
        (AuditEventType.BRIDGE_FAILED, "FailingBridge"),
    ]


async def test_bridge_execution_error_continue(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    bridge_set = BridgeSet([InputBridge(), FailingBridge(), OutputBridge()])

    result = await bridge_set.execute_with_lock(intent.id, mode=ExecutionMode.CONTINUE)

    assert result.status is IntentStatusEnum.COMPLETED
    assert (await stored(bridge, intent.id)).status is IntentStatusEnum.COMPLETED


async def test_bridge_that_returns_a_new_object_has_it_stored(bridge: Bridge) -> None:
    class CopyingBridge(BaseBridge):
        async def execute(self, intent: IntentModel) -> IntentModel:
            return intent.model_copy(update={"payload": {**intent.payload, "copied": True}})

    intent = await create_test_intent(bridge, payload={"a": 1})

    result = await BridgeSet([InputBridge(), CopyingBridge(), OutputBridge()]).execute_with_lock(intent.id)

    assert result.payload == {"a": 1, "copied": True}
    assert (await stored(bridge, intent.id)).payload == {"a": 1, "copied": True}


async def test_bridge_that_corrects_its_own_intent_does_not_block(bridge: Bridge, other: Bridge) -> None:
    async def reviewer(intent: IntentModel) -> dict[str, Any] | None:
        # While the bridge thinks, a reviewer in another program corrects the same intent, and does not wait for it.
        async with asyncio.timeout(5):
            await other.reeval_client.reeval(correction(intent.id, {"payload.outside": 1}))
        return {"payload.inside": 2}

    for client in (bridge.reeval_client, None):  # through the client, or by intent.apply_correction
        intent = await create_test_intent(bridge)
        bridges = [InputBridge(), NormalizeBridge(), FeedbackBridge(reviewer, client), OutputBridge()]

        result = await BridgeSet(bridges, name=f"client-{client is not None}").execute_with_lock(intent.id)

        assert result.status is IntentStatusEnum.COMPLETED
        assert result.payload == {"outside": 1, "inside": 2}
        assert {one.source for one in result.correction_history} == {"yuno"}
        assert len(result.correction_history) == 2
