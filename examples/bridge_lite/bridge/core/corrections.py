"""Corrections: the same diff for the same intent is one correction. The rules are Interlock's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.core.errors import bridge_errors
from interlock.records.corrections import checked_diff, correction_id, diff_digest, merged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from bridge.core.models.intent_model import IntentModel

__all__ = ["CORRECTABLE", "KIND", "generate_correction_id", "is_correction_applied", "merge_payload"]

KIND = "IntentModel"
"""The kind of the records in Interlock's store."""
CORRECTABLE = ("payload",)


def generate_correction_id(intent_id: UUID, diff: Mapping[str, Any], key: str | None = None) -> str:
    """Return the ID of a correction: of the intent and the canonical diff, or of the intent and the key."""
    with bridge_errors():
        return correction_id(KIND, str(intent_id), diff_digest(checked_diff(dict(diff), CORRECTABLE)), key)


def is_correction_applied(intent: IntentModel, correction_id: str) -> bool:
    """Return whether a correction is in an intent's history."""
    return any(entry.correction_id == correction_id for entry in intent.correction_history)


def merge_payload(payload: Mapping[str, Any], diff: Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload with the values of a diff. Raises ``InvalidCorrectionError`` if the diff is not acceptable."""
    with bridge_errors():
        nested = checked_diff(dict(diff), CORRECTABLE)
    found: dict[str, Any] = merged({"payload": dict(payload)}, nested)["payload"]
    return found
