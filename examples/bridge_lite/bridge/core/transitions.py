"""Which status may follow which. Interlock checks the machine on every write."""

from __future__ import annotations

from bridge.core.enums import IntentStatusEnum
from interlock.records import Machine

__all__ = ["MACHINE", "is_valid_transition"]

MACHINE = Machine(
    initial=IntentStatusEnum.RECEIVED,
    transitions={
        IntentStatusEnum.RECEIVED: [
            IntentStatusEnum.NORMALIZED,
            IntentStatusEnum.PROCESSED,
            IntentStatusEnum.FAILED,
        ],
        IntentStatusEnum.NORMALIZED: [
            IntentStatusEnum.PROCESSED,
            IntentStatusEnum.COMPLETED,
            IntentStatusEnum.FAILED,
        ],
        IntentStatusEnum.PROCESSED: [
            IntentStatusEnum.CORRECTED,
            IntentStatusEnum.COMPLETED,
            IntentStatusEnum.FAILED,
        ],
        IntentStatusEnum.CORRECTED: [IntentStatusEnum.COMPLETED, IntentStatusEnum.FAILED],
    },
    corrected=IntentStatusEnum.CORRECTED,
)
"""``completed`` and ``failed`` are final. A correction moves any other status to ``corrected``."""


def is_valid_transition(status: IntentStatusEnum, new_status: IntentStatusEnum) -> bool:
    """Return whether an intent may go from one status to another. It may always stay."""
    return MACHINE.allows(status, new_status)
