"""Status transition validity: 5 cases."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from bridge.core.enums import IntentStatusEnum
from bridge.core.errors import InvalidStatusTransitionError
from bridge.core.operations import update_intent_status
from bridge.core.transitions import is_valid_transition
from tests.examples.bridge_lite.intents import create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge

R, N, P, C, D, F = IntentStatusEnum  # received, normalized, processed, corrected, completed, failed
ALLOWED = {(R, N), (R, P), (R, F), (N, P), (N, D), (N, F), (P, C), (P, D), (P, F), (C, D), (C, F)}


async def test_status_transition_received_to_normalized(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.RECEIVED)

    updated = await update_intent_status(
        intent.id, IntentStatusEnum.NORMALIZED, bridge.data_bridge, bridge.audit_logger
    )

    assert updated.status is IntentStatusEnum.NORMALIZED
    assert (await stored(bridge, intent.id)).status is IntentStatusEnum.NORMALIZED


async def test_status_transition_processed_to_completed(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.PROCESSED)

    updated = await update_intent_status(intent.id, IntentStatusEnum.COMPLETED, bridge.data_bridge, bridge.audit_logger)

    assert updated.status is IntentStatusEnum.COMPLETED


async def test_status_transition_corrected_to_completed(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.CORRECTED)

    updated = await update_intent_status(intent.id, IntentStatusEnum.COMPLETED, bridge.data_bridge, bridge.audit_logger)

    assert updated.status is IntentStatusEnum.COMPLETED


async def test_status_transition_completed_to_any_invalid(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.COMPLETED)

    for status in (R, N, P, C, F):
        with pytest.raises(InvalidStatusTransitionError, match="from 'completed'"):
            await update_intent_status(intent.id, status, bridge.data_bridge, bridge.audit_logger)
    assert (await stored(bridge, intent.id)).version == intent.version


async def test_status_transition_every_pair_as_declared(bridge: Bridge) -> None:
    assert {(a, b) for a, b in product(IntentStatusEnum, repeat=2) if a != b and is_valid_transition(a, b)} == ALLOWED
    for status in IntentStatusEnum:
        assert is_valid_transition(status, status), "a status may be set to itself"

    intent = await create_test_intent(bridge)
    with pytest.raises(InvalidStatusTransitionError):
        async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
            locked.status = IntentStatusEnum.COMPLETED  # the machine is checked on every write, not only here
