"""The first bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.core.bridges.base_bridge import BaseBridge
from bridge.core.enums import BridgeTypeEnum, IntentStatusEnum
from bridge.core.errors import BridgeExecutionError

if TYPE_CHECKING:
    from bridge.core.models.intent_model import IntentModel

__all__ = ["InputBridge"]


class InputBridge(BaseBridge):
    """Accept an intent: it needs a type."""

    type = BridgeTypeEnum.INPUT

    async def execute(self, intent: IntentModel) -> IntentModel:
        """Check the intent, and set its status to ``normalized``."""
        if not intent.type.strip():
            raise BridgeExecutionError(f"Intent {intent.id} has no type.", bridge_type=self.type)
        return self.advance(intent, IntentStatusEnum.NORMALIZED)
