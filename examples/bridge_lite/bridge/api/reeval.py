"""Re-evaluation: apply a correction once, while others change the same intent."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING
from uuid import UUID

from bridge.core.enums import AuditEventType, IntentStatusEnum
from bridge.core.errors import ConcurrencyConflictError, LockTimeoutError
from bridge.core.models.reeval_model import ReEvaluationResponse
from bridge.data.commits import change_of_intent

if TYPE_CHECKING:
    from bridge.audit.audit_logger import AuditLogger
    from bridge.core.models.reeval_model import ReEvaluationRequest
    from bridge.data.postgres_bridge import PostgresDataBridge
    from interlock.records import CorrectionResult

__all__ = ["ReEvalClient", "reeval_intent_optimistic"]


async def reeval_intent_optimistic(
    request: ReEvaluationRequest,
    data_bridge: PostgresDataBridge,
    max_retries: int | None = None,
    audit_logger: AuditLogger | None = None,
) -> ReEvaluationResponse:
    """Apply a correction, and answer what became of it.

    A correction that loses against another write queues for the intent's lock instead of sleeping, so all of any
    number of contenders succeed. ``max_retries`` (``MAX_RETRIES``) is how often it queues; only after the last time
    it raises ``ConcurrencyConflictError``.
    """
    config = data_bridge.config
    attempts = config.MAX_RETRIES if max_retries is None else max_retries
    async with change_of_intent():
        result: CorrectionResult | None = None
        attempt = 0
        while result is None:
            try:
                result = await data_bridge.correct_intent(
                    request.intent_id,
                    request.diff,
                    source=request.source,
                    reason=request.reason,
                    metadata=request.metadata,
                    key=request.key,
                )
            except (ConcurrencyConflictError, LockTimeoutError) as error:
                attempt += 1
                if attempt >= attempts:
                    raise ConcurrencyConflictError(
                        f"Failed to re-evaluate intent {request.intent_id} after {attempts} attempts: {error.message}"
                    ) from error
                spread = random.uniform(-config.RETRY_JITTER, config.RETRY_JITTER)  # noqa: S311 - spreads the callers
                await asyncio.sleep(max(0.0, config.RETRY_BACKOFF_BASE * 2**attempt + spread))
        if audit_logger is not None and not result.already_applied:
            await audit_logger.log(
                event=AuditEventType.REEVALUATED,
                intent_id=request.intent_id,
                actor=request.source.value,
                payload={"correction_id": result.correction_id, "retry_count": attempt},
            )
    return ReEvaluationResponse(
        intent_id=UUID(result.id),
        status=IntentStatusEnum(result.status),
        already_applied=result.already_applied,
        correction_id=result.correction_id,
        applied_at=result.applied_at,
        correction_count=result.correction_count,
    )


class ReEvalClient:
    """Asks for re-evaluations in this process. The HTTP API asks in the same way."""

    def __init__(self, data_bridge: PostgresDataBridge, audit_logger: AuditLogger | None = None) -> None:
        self._data_bridge = data_bridge
        self._audit_logger = audit_logger

    async def reeval(self, request: ReEvaluationRequest) -> ReEvaluationResponse:
        """Apply a correction once."""
        return await reeval_intent_optimistic(request, self._data_bridge, audit_logger=self._audit_logger)
