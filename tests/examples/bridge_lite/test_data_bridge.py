"""The data bridge: locks, versions, corrections in memory, and errors by their names."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bridge.core.enums import AuditEventType, IntentStatusEnum, PhilosophicalActor
from bridge.core.errors import (
    BridgeError,
    ConcurrencyConflictError,
    DeadlockError,
    IntentNotFoundError,
    InvalidCorrectionError,
    InvalidStatusTransitionError,
    LockTimeoutError,
    SourceNotAllowedError,
)
from bridge.core.operations import update_intent_status, update_multiple_intents
from interlock import errors as interlock_errors
from tests.examples.bridge_lite.intents import correction, create_test_intent, stored

if TYPE_CHECKING:
    from bridge.factory import Bridge


async def test_a_lock_waits_then_times_out_and_persists_or_rolls_back(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)
    async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
        locked.payload["a"] = 1
        with pytest.raises(LockTimeoutError):
            async with other.data_bridge.lock_intent_for_update(intent.id, timeout=0.05):
                pytest.fail("two holders")
        waiting = asyncio.create_task(_payload(other, intent.id))
        await asyncio.sleep(0.05)
        assert not waiting.done()
    assert await waiting == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
            locked.payload["a"] = 1 // 0
    assert (await stored(other, intent.id)).payload == {"a": 1}
    with pytest.raises(IntentNotFoundError):
        async with bridge.data_bridge.lock_intent_for_update(uuid4()):
            pytest.fail("no such intent")


async def _payload(bridge: Bridge, intent_id: object) -> dict[str, object]:
    async with bridge.data_bridge.lock_intent_for_update(intent_id, timeout=5) as intent:  # type: ignore[arg-type]
        return dict(intent.payload)


async def test_an_update_needs_the_expected_version(bridge: Bridge, other: Bridge) -> None:
    intent = await create_test_intent(bridge)
    one, two = await stored(bridge, intent.id), await stored(other, intent.id)
    for copy, value in ((one, 1), (two, 2)):
        copy.payload["a"] = value
        copy.increment_version()

    assert await bridge.data_bridge.update_intent_if_version_matches(intent.id, one, 0)
    assert not await other.data_bridge.update_intent_if_version_matches(intent.id, two, 0)
    final = await stored(bridge, intent.id)
    assert (final.payload, final.version) == ({"a": 1}, 1)


async def test_corrections_in_memory_are_stored_with_their_history(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, payload={"to": "ann"})

    read = await stored(bridge, intent.id)
    read.apply_correction({"payload.to": "eva"}, PhilosophicalActor.YUNO, "wrong name")
    assert (read.status, read.payload) == (IntentStatusEnum.CORRECTED, {"to": "eva"})
    read.increment_version()
    assert await bridge.data_bridge.update_intent_if_version_matches(intent.id, read, 0)
    async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
        locked.apply_correction({"payload.cc": "bob"}, PhilosophicalActor.KANA, "copy", {"ticket": 7})

    final = await stored(bridge, intent.id)
    assert (final.status, final.payload) == (IntentStatusEnum.CORRECTED, {"to": "eva", "cc": "bob"})
    assert [one.source for one in final.correction_history] == ["yuno", "kana"]
    again = await bridge.reeval_client.reeval(correction(intent.id, {"payload.to": "eva"}))
    assert again.already_applied
    assert final.correction_history[0].correction_id == again.correction_id
    stale = await stored(bridge, intent.id)
    stale.apply_correction({"payload.x": 1}, PhilosophicalActor.YUNO, "late")
    assert not await bridge.data_bridge.update_intent_if_version_matches(intent.id, stale, 0)


async def test_a_final_intent_is_not_corrected_and_history_is_bounded(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge, IntentStatusEnum.COMPLETED)
    with pytest.raises(InvalidStatusTransitionError):
        await bridge.reeval_client.reeval(correction(intent.id, {"payload.a": 1}))
    with pytest.raises(InvalidStatusTransitionError):
        intent.apply_correction({"payload.a": 1}, PhilosophicalActor.YUNO, "late")
    with pytest.raises(SourceNotAllowedError, match="'tsumu' may not correct"):
        await bridge.reeval_client.reeval(correction(intent.id, {"payload.a": 1}, PhilosophicalActor.TSUMU))
    for diff in ({"status": "completed"}, {}, {"payload": {"$set": 1}}, {"payload": {"a": "x" * 11_000}}):
        with pytest.raises(InvalidCorrectionError):
            await bridge.reeval_client.reeval(correction(intent.id, diff))


async def test_updates_of_several_intents_are_all_or_nothing(bridge: Bridge) -> None:
    ids = [(await create_test_intent(bridge)).id for _ in range(3)]

    with pytest.raises(IntentNotFoundError):
        await update_multiple_intents([*ids, uuid4()], {"payload": {"a": 1}}, bridge.data_bridge)
    assert [(await stored(bridge, one)).version for one in ids] == [0, 0, 0]
    done = await update_multiple_intents(reversed(ids), {"payload": {"a": 1}}, bridge.data_bridge)
    assert [one.id for one in done] == sorted(ids)


async def test_a_status_that_does_not_change_is_journaled_as_nothing(bridge: Bridge) -> None:
    intent = await create_test_intent(bridge)
    await update_intent_status(intent.id, IntentStatusEnum.RECEIVED, bridge.data_bridge, bridge.audit_logger)

    assert (await stored(bridge, intent.id)).version == 0
    assert AuditEventType.STATUS_CHANGED not in [one.event for one in await bridge.audit_logger.events(intent.id)]
    with pytest.raises(IntentNotFoundError):
        await update_intent_status(uuid4(), IntentStatusEnum.FAILED, bridge.data_bridge, bridge.audit_logger)


def test_every_error_is_the_bridges_and_interlocks() -> None:
    for own, theirs in (
        (IntentNotFoundError, interlock_errors.RecordNotFoundError),
        (InvalidStatusTransitionError, interlock_errors.InvalidTransitionError),
        (LockTimeoutError, interlock_errors.LockTimeoutError),
        (ConcurrencyConflictError, interlock_errors.ConcurrencyConflictError),
        (DeadlockError, interlock_errors.DeadlockError),
    ):
        assert issubclass(own, BridgeError)
        assert issubclass(own, theirs)
    error = DeadlockError("stuck", {"max_retries": 3})
    assert error.deadlock_info == {"max_retries": 3}
