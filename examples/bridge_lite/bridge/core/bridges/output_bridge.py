"""The last bridge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bridge.core.bridges.base_bridge import BaseBridge
from bridge.core.enums import BridgeTypeEnum, IntentStatusEnum
from bridge.core.models.intent_model import IntentModel

__all__ = ["OutputBridge", "Publish"]

Publish = Callable[[IntentModel], Awaitable[None]]
"""Delivers an intent. It may be called again after a crash, so it has to be idempotent."""


class OutputBridge(BaseBridge):
    """Deliver an intent and complete it."""

    type = BridgeTypeEnum.OUTPUT

    def __init__(self, publish: Publish | None = None) -> None:
        self._publish = publish

    async def execute(self, intent: IntentModel) -> IntentModel:
        """Deliver the intent, and set its status to ``completed``."""
        if self._publish is not None:
            await self._publish(intent)
        return self.advance(intent, IntentStatusEnum.COMPLETED)
