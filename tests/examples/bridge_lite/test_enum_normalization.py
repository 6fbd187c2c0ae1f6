"""Enum normalization: 3 cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bridge.core.enums import (
    AuditEventType,
    BridgeTypeEnum,
    ExecutionMode,
    IntentStatusEnum,
    LockStrategy,
    NormalizedEnum,
    PhilosophicalActor,
    normalize_enum,
)
from bridge.core.models import IntentModel, ReEvaluationRequest
from bridge.core.operations import update_intent_status, update_multiple_intents
from tests.examples.bridge_lite.intents import create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge

ENUMS: list[type[NormalizedEnum]] = [
    AuditEventType,
    BridgeTypeEnum,
    ExecutionMode,
    IntentStatusEnum,
    LockStrategy,
    PhilosophicalActor,
]


async def test_enum_values_are_normalized_whatever_their_form(bridge: Bridge) -> None:
    for enum in ENUMS:
        for member in enum:
            for text in (member.name, member.value.upper(), f"  {member.value} ", member.value.replace("_", "-")):
                assert normalize_enum(enum, text) is member
            assert normalize_enum(enum, member) is member

    intent = await create_test_intent(bridge)
    await update_intent_status(intent.id, " Normalized", bridge.data_bridge, bridge.audit_logger)  # type: ignore[arg-type]
    await update_multiple_intents([intent.id], {"status": "PROCESSED"}, bridge.data_bridge)
    assert (await bridge.data_bridge.intents.list(status="processed"))[0].id == intent.id


async def test_enum_values_that_mean_nothing_are_refused(bridge: Bridge) -> None:
    for value in ("", "done", None, 7, "received!", "receivedreceived"):
        with pytest.raises(ValueError, match=r"Invalid IntentStatusEnum .* Valid values: received, normalized,"):
            normalize_enum(IntentStatusEnum, value)

    intent = await create_test_intent(bridge)
    with pytest.raises(ValueError, match="'done' is not a valid IntentStatusEnum"):
        await update_multiple_intents([intent.id], {"status": "done"}, bridge.data_bridge)
    assert (await stored(bridge, intent.id)).version == 0


async def test_enums_in_models_and_requests_are_normalized(bridge: Bridge) -> None:
    made = await bridge.data_bridge.create_intent(IntentModel.model_validate({"status": "Received "}))
    request = ReEvaluationRequest.model_validate_json(
        f'{{"intent_id": "{made.id}", "diff": {{"payload.a": 1}}, "source": "KANA", "reason": "why"}}'
    )
    answer = await bridge.reeval_client.reeval(request)

    assert (await stored(bridge, made.id)).status is IntentStatusEnum.CORRECTED
    assert request.source is PhilosophicalActor.KANA
    assert answer.status is IntentStatusEnum.CORRECTED
