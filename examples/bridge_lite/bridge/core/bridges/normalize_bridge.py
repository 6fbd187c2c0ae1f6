"""The second bridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.core.bridges.base_bridge import BaseBridge
from bridge.core.enums import BridgeTypeEnum, IntentStatusEnum

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bridge.core.models.intent_model import IntentModel

__all__ = ["NormalizeBridge"]


class NormalizeBridge(BaseBridge):
    """Bring an intent into its normal form: texts have no surrounding spaces."""

    type = BridgeTypeEnum.NORMALIZE

    async def execute(self, intent: IntentModel) -> IntentModel:
        """Normalize the payload, and set the status to ``processed``."""
        intent.type = intent.type.strip().lower()
        intent.payload = {name: _normalized(value) for name, value in intent.payload.items()}
        return self.advance(intent, IntentStatusEnum.PROCESSED)


def _normalized(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {name: _normalized(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_normalized(one) for one in value]
    return value
