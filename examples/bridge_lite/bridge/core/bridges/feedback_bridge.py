"""The third bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from bridge.core.bridges.base_bridge import BaseBridge
from bridge.core.enums import BridgeTypeEnum, PhilosophicalActor
from bridge.core.models.intent_model import IntentModel

if TYPE_CHECKING:
    from bridge.api.reeval import ReEvalClient

__all__ = ["FeedbackBridge", "Reviewer"]

Reviewer = Callable[[IntentModel], Awaitable[dict[str, Any] | None]]
"""Looks at an intent and returns a correction, or None if it needs none."""


class FeedbackBridge(BaseBridge):
    """Ask a reviewer, and apply the correction if there is one.

    The correction goes through the re-evaluation client if there is one, and so has the same checks and the same entry
    in the journal as a correction from outside. It is an intent's own pipeline that corrects it here: that neither
    blocks nor needs a lock.
    """

    type = BridgeTypeEnum.FEEDBACK

    def __init__(self, reviewer: Reviewer | None = None, client: ReEvalClient | None = None) -> None:
        self._reviewer = reviewer
        self._client = client

    async def execute(self, intent: IntentModel) -> IntentModel:
        """Keep the status ``processed``, or set it to ``corrected``."""
        diff = None if self._reviewer is None else await self._reviewer(intent)
        if diff is None:
            return intent
        if self._client is None:
            intent.apply_correction(diff, PhilosophicalActor.YUNO, "feedback")
            return intent
        from bridge.core.models.reeval_model import ReEvaluationRequest

        request = ReEvaluationRequest(intent_id=intent.id, diff=diff, source=PhilosophicalActor.YUNO, reason="feedback")
        await self._client.reeval(request)
        return intent
