"""BridgeSet modes: 3 cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bridge.core.bridge_set import BridgeSet
from bridge.core.bridges import FeedbackBridge, InputBridge, NormalizeBridge, OutputBridge
from bridge.core.enums import AuditEventType, ExecutionMode, IntentStatusEnum
from bridge.core.errors import BridgeExecutionError
from tests.examples.bridge_lite.intents import create_test_intent, stored

if TYPE_CHECKING:
    from bridge.core.models import IntentModel
    from bridge.factory import Bridge


class FailingNormalize(NormalizeBridge):
    async def execute(self, intent: IntentModel) -> IntentModel:
        intent.payload["half"] = "done"
        raise BridgeExecutionError("no dictionary", bridge_type=self.type)


class FailingInput(InputBridge):
    async def execute(self, intent: IntentModel) -> IntentModel:
        raise BridgeExecutionError("no input", bridge_type=self.type)


async def test_mode_failfast_stores_failed_and_raises(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    bridge_set = BridgeSet([InputBridge(), FailingNormalize(), FeedbackBridge(), OutputBridge()])

    with pytest.raises(BridgeExecutionError, match="no dictionary"):
        await bridge_set.execute_with_lock(intent.id)

    final = await stored(bridge, intent.id)
    assert final.status is IntentStatusEnum.FAILED
    assert "half" not in final.payload, "what a failed bridge changed is not stored"


async def test_mode_continue_completes_despite_a_failed_bridge(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    bridge_set = BridgeSet([InputBridge(), FailingNormalize(), FeedbackBridge(), OutputBridge()])

    result = await bridge_set.execute_with_lock(intent.id, mode=ExecutionMode.CONTINUE)

    assert result.status is IntentStatusEnum.COMPLETED
    events = await bridge.audit_logger.events(intent.id)
    failed = [one for one in events if one.event is AuditEventType.BRIDGE_FAILED]
    assert [one.bridge_type for one in failed] == ["normalize"]
    assert "no dictionary" in failed[0].payload["error"]


async def test_mode_selective_raises_only_if_the_input_fails(bridge: Bridge) -> None:
    tolerated, refused = await create_test_intent(bridge), await create_test_intent(bridge)

    done = await BridgeSet([InputBridge(), FailingNormalize(), OutputBridge()], name="tolerant").execute_with_lock(
        tolerated.id, mode=ExecutionMode.SELECTIVE
    )
    with pytest.raises(BridgeExecutionError, match="no input"):
        await BridgeSet([FailingInput(), NormalizeBridge(), OutputBridge()], name="strict").execute_with_lock(
            refused.id, mode=ExecutionMode.SELECTIVE
        )

    assert done.status is IntentStatusEnum.COMPLETED
    assert (await stored(bridge, refused.id)).status is IntentStatusEnum.FAILED
