"""Operations on intents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.core.enums import AuditEventType, IntentStatusEnum
from bridge.core.errors import IntentNotFoundError, InvalidStatusTransitionError
from bridge.core.retry import retry_on_deadlock
from bridge.core.transitions import is_valid_transition
from bridge.data.commits import change_of_intent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from bridge.audit.audit_logger import AuditLogger
    from bridge.core.models.intent_model import IntentModel
    from bridge.data.postgres_bridge import PostgresDataBridge

__all__ = ["update_intent_status", "update_multiple_intents"]


async def update_intent_status(
    intent_id: UUID,
    new_status: IntentStatusEnum,
    data_bridge: PostgresDataBridge,
    audit_logger: AuditLogger,
) -> IntentModel:
    """Give an intent another status, on behalf of its technical actor, and return it.

    Raises ``InvalidStatusTransitionError`` if its status does not allow that. Old and new status are journaled in the
    same transaction.
    """
    config = data_bridge.config
    retry = retry_on_deadlock(
        config.LOCK_TIMEOUT_RETRIES + 1, config.RETRY_BACKOFF_BASE, jitter=config.RETRY_JITTER, lock_timeouts=True
    )
    return await retry(_update_status)(intent_id, IntentStatusEnum(new_status), data_bridge, audit_logger)


async def _update_status(
    intent_id: UUID, new_status: IntentStatusEnum, data_bridge: PostgresDataBridge, audit_logger: AuditLogger
) -> IntentModel:
    known = await data_bridge.get_intent(intent_id)
    if known is None:
        raise IntentNotFoundError(f"Intent {intent_id} does not exist.")
    actor = known.technical_actor
    old_status = known.status

    def change(intent: IntentModel) -> None:
        nonlocal old_status
        _check(intent, new_status)
        old_status, intent.status = intent.status, new_status

    async with change_of_intent():
        if data_bridge.is_pessimistic("update_status"):
            wait = data_bridge.config.wait("update_status")
            async with data_bridge.lock_intent_for_update(intent_id, wait, actor=actor) as intent:
                change(intent)
        else:
            intent = await data_bridge.update_intent(intent_id, change, actor=actor)
        await audit_logger.log(
            event=AuditEventType.STATUS_CHANGED,
            intent_id=intent_id,
            actor=actor,
            payload={"old_status": old_status.value, "new_status": new_status.value},
        )
    return intent


def _check(intent: IntentModel, new_status: IntentStatusEnum) -> None:
    if not is_valid_transition(intent.status, new_status):
        raise InvalidStatusTransitionError(
            f"Cannot transition intent {intent.id} from {intent.status.value!r} to {new_status.value!r}.",
            status=intent.status,
            requested=new_status,
        )


async def update_multiple_intents(
    intent_ids: Iterable[UUID], updates: Mapping[str, Any], data_bridge: PostgresDataBridge
) -> list[IntentModel]:
    """Set fields of several intents, all of them or none, and return them in the order of their IDs.

    They are locked in the order of their IDs, so such updates do not deadlock with one another. A deadlock with nested
    locks is retried.
    """
    return await data_bridge.update_many(sorted(set(intent_ids)), updates)
