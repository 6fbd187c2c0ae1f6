"""AuditLogger, in the store and in a local file: 3 cases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from bridge.audit import LocalAuditLogger, PostgresAuditLogger
from bridge.core.enums import AuditEventType, BridgeTypeEnum, IntentStatusEnum
from bridge.core.errors import InvalidStatusTransitionError
from bridge.core.operations import update_intent_status
from tests.examples.bridge_lite.intents import correction, create_test_intent

if TYPE_CHECKING:
    from pathlib import Path

    from bridge.audit import AuditLogger
    from bridge.factory import Bridge


async def test_audit_logger_in_the_store(bridge: Bridge) -> None:
    logger = PostgresAuditLogger(bridge.data_bridge)
    intent = await create_test_intent(bridge, technical_actor="importer")

    await update_intent_status(intent.id, IntentStatusEnum.PROCESSED, bridge.data_bridge, logger)
    answer = await bridge.reeval_client.reeval(correction(intent.id, {"payload.a": 1}))
    await logger.log(AuditEventType.BRIDGE_STARTED, intent.id, "eva", BridgeTypeEnum.INPUT, {"by": "hand"})

    changed, reevaluated, corrected, started = await logger.events(intent.id)
    assert (changed.event, changed.actor) == (AuditEventType.STATUS_CHANGED, "importer")
    assert changed.payload == {"old_status": "received", "new_status": "processed"}
    assert (reevaluated.event, reevaluated.actor) == (AuditEventType.REEVALUATED, "yuno")
    assert reevaluated.payload == {"correction_id": answer.correction_id, "retry_count": 0}
    assert corrected.payload["new_status"] == "corrected"
    assert (started.event, started.bridge_type, started.payload) == (
        AuditEventType.BRIDGE_STARTED,
        "input",
        {"by": "hand"},
    )
    # The entry of the change commits with it: the journal has one for each version.
    entries = await bridge.data_bridge.intents.history(str(intent.id))
    assert [entry.to_version for entry in entries] == [2, 1, 0]


async def test_audit_logger_in_a_local_file(bridge: Bridge, tmp_path: Path) -> None:
    logger = LocalAuditLogger(tmp_path / "audit.log")
    intents = [await create_test_intent(bridge) for _ in range(20)]

    await asyncio.gather(
        *(update_intent_status(one.id, IntentStatusEnum.FAILED, bridge.data_bridge, logger) for one in intents)
    )

    assert len((tmp_path / "audit.log").read_text().splitlines()) == len(intents)
    for one in intents:
        (event,) = await logger.events(one.id)
        assert event.payload == {"old_status": "received", "new_status": "failed"}
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


async def test_audit_logger_has_no_event_of_a_change_that_was_rolled_back(bridge: Bridge, tmp_path: Path) -> None:
    intent = await create_test_intent(bridge)
    loggers: list[AuditLogger] = [PostgresAuditLogger(bridge.data_bridge), LocalAuditLogger(tmp_path / "audit.log")]

    for logger in loggers:
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
                locked.status = IntentStatusEnum.NORMALIZED
                await logger.log(AuditEventType.STATUS_CHANGED, intent.id, payload={"new_status": "normalized"})
                raise ZeroDivisionError
        with pytest.raises(InvalidStatusTransitionError):
            await update_intent_status(intent.id, IntentStatusEnum.COMPLETED, bridge.data_bridge, logger)
        assert list(await logger.events(intent.id)) == []

    async with bridge.data_bridge.lock_intent_for_update(intent.id) as locked:
        locked.status = IntentStatusEnum.NORMALIZED
        await loggers[0].log(AuditEventType.BRIDGE_STARTED, intent.id, "eva")  # nothing else would record this
        before: list[Any] = []
        for logger in loggers:
            await logger.log(AuditEventType.STATUS_CHANGED, intent.id, payload={"new_status": "normalized"})
            before += await logger.events(intent.id)
        assert before == [], "not before the change is committed"
    in_store, in_file = [await logger.events(intent.id) for logger in loggers]
    assert [one.event for one in in_store] == [AuditEventType.STATUS_CHANGED, AuditEventType.BRIDGE_STARTED]
    assert [one.event for one in in_file] == [AuditEventType.STATUS_CHANGED]
