"""The enums. Values from other systems are normalized: ``"  Received"`` and ``"RECEIVED"`` are one status."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar, cast

__all__ = [
    "AuditEventType",
    "BridgeTypeEnum",
    "ExecutionMode",
    "IntentStatusEnum",
    "LockStrategy",
    "NormalizedEnum",
    "PhilosophicalActor",
    "normalize_enum",
]

E = TypeVar("E", bound="NormalizedEnum")


class NormalizedEnum(StrEnum):
    """An enum whose members are found by value or name; case, spaces and dashes do not matter."""

    @classmethod
    def _missing_(cls, value: object) -> NormalizedEnum | None:
        if not isinstance(value, str):
            return None
        wanted = "_".join(value.replace("-", " ").split()).lower()
        return next((member for member in cls if wanted in (member.value, member.name.lower())), None)


def normalize_enum(enum: type[E], value: object) -> E:
    """Return the member that a value stands for. Raises ``ValueError`` that lists the valid values."""
    try:
        return enum(cast("str", value))
    except ValueError:
        valid = ", ".join(member.value for member in enum)
        raise ValueError(f"Invalid {enum.__name__} {value!r:.60}. Valid values: {valid}.") from None


class IntentStatusEnum(NormalizedEnum):
    """Where an intent is on its way."""

    RECEIVED = "received"
    NORMALIZED = "normalized"
    PROCESSED = "processed"
    CORRECTED = "corrected"
    COMPLETED = "completed"
    FAILED = "failed"


class PhilosophicalActor(NormalizedEnum):
    """On whose behalf a correction is made. YUNO and KANA may make corrections."""

    YUNO = "yuno"
    KANA = "kana"
    TSUMU = "tsumu"


class BridgeTypeEnum(NormalizedEnum):
    """The part of the pipeline that a bridge is."""

    INPUT = "input"
    NORMALIZE = "normalize"
    FEEDBACK = "feedback"
    OUTPUT = "output"


class ExecutionMode(NormalizedEnum):
    """The reaction of a pipeline to a bridge that fails."""

    FAILFAST = "failfast"
    """Stop, store the status ``failed``, and raise ``BridgeExecutionError``."""
    CONTINUE = "continue"
    """Run the other bridges, and complete."""
    SELECTIVE = "selective"
    """Stop and raise only if the input bridge fails."""


class LockStrategy(NormalizedEnum):
    """How an operation coordinates with others; Interlock's strategies by the same names."""

    OPTIMISTIC = "optimistic"
    PESSIMISTIC = "pessimistic"
    NONE = "none"


class AuditEventType(NormalizedEnum):
    """The kinds of audit events."""

    STATUS_CHANGED = "status_changed"
    BRIDGE_STARTED = "bridge_started"
    BRIDGE_COMPLETED = "bridge_completed"
    BRIDGE_FAILED = "bridge_failed"
    REEVALUATED = "reevaluated"
