"""The base class of all bridges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from bridge.core.enums import IntentStatusEnum

if TYPE_CHECKING:
    from bridge.core.enums import BridgeTypeEnum
    from bridge.core.models.intent_model import IntentModel

__all__ = ["BaseBridge"]


class BaseBridge(ABC):
    """One stage of the pipeline.

    ``execute`` changes the intent that it gets, or returns another one; what it returns is stored. It may run again
    after a crash, so its effects elsewhere have to be idempotent. It holds no lock: others may correct the intent
    meanwhile. Raise ``BridgeExecutionError`` if it cannot do its part.
    """

    type: BridgeTypeEnum | str = ""
    """The part of the pipeline. The default is the name of the class."""

    @abstractmethod
    async def execute(self, intent: IntentModel) -> IntentModel:
        """Do this bridge's part, and return the intent."""

    @property
    def name(self) -> str:
        """The name of the stage in the journal and on the dashboard."""
        return str(self.type or type(self).__name__)

    @staticmethod
    def advance(intent: IntentModel, status: IntentStatusEnum) -> IntentModel:
        """Give an intent the next status. One that was corrected stays ``corrected`` until the output."""
        if intent.status is not IntentStatusEnum.CORRECTED or status is IntentStatusEnum.COMPLETED:
            intent.status = status
        return intent
