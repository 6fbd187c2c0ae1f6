"""The intent. It is a record of Interlock's: ID, status, version and times are managed by the store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel, Field, PrivateAttr

from bridge.core.corrections import generate_correction_id, merge_payload
from bridge.core.enums import IntentStatusEnum, PhilosophicalActor
from bridge.core.errors import InvalidStatusTransitionError
from bridge.core.transitions import MACHINE

__all__ = ["CorrectionEntry", "IntentModel", "PendingCorrection"]


class CorrectionEntry(BaseModel):
    """One correction in an intent's history."""

    correction_id: str
    source: str
    reason: str
    applied_at: datetime


class PendingCorrection(BaseModel):
    """A correction that was applied to the model in memory and is not stored yet."""

    diff: dict[str, Any]
    source: PhilosophicalActor
    reason: str
    metadata: dict[str, Any] | None = None
    status_before: IntentStatusEnum
    payload_before: dict[str, Any]


class IntentModel(BaseModel):
    """A request that passes through the pipeline."""

    id: UUID = Field(default_factory=uuid4)
    type: str = "message"
    status: IntentStatusEnum = IntentStatusEnum.RECEIVED
    payload: dict[str, Any] = Field(default_factory=dict)
    technical_actor: str = "bridge"
    """The program on whose behalf the status changes."""
    version: int = Field(default=0, description="Version number for optimistic locking")
    created_at: datetime | None = None
    updated_at: datetime | None = None
    imported_corrections: list[dict[str, Any]] = Field(default_factory=list)
    """The history that came with an intent from an older table, as that table had it."""
    correction_history: list[CorrectionEntry] = Field(default_factory=list, exclude=True)
    """The corrections, the oldest first. The store keeps them, so they are not part of what is written."""
    _pending: list[PendingCorrection] = PrivateAttr(default_factory=list)

    def increment_version(self) -> None:
        """Increment the version in memory. The store has the last word: it writes one more than it has."""
        self.version += 1
        self.updated_at = datetime.now(UTC)

    def apply_correction(
        self,
        diff: dict[str, Any],
        source: PhilosophicalActor,
        reason: str,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Apply a correction to this model.

        It is stored, with its entry in the history, when the model is written: at the end of
        ``lock_intent_for_update`` or by ``update_intent_if_version_matches``.
        """
        if self.status in MACHINE.final:
            raise InvalidStatusTransitionError(
                f"Intent {self.id} cannot be corrected: {self.status.value!r} is a final status.",
                status=self.status,
                requested=IntentStatusEnum.CORRECTED,
            )
        payload = merge_payload(self.payload, diff)
        self._pending.append(
            PendingCorrection(
                diff=diff,
                source=source,
                reason=reason,
                metadata=metadata,
                status_before=self.status,
                payload_before=self.payload,
            )
        )
        self.payload = payload
        self.status = IntentStatusEnum.CORRECTED
        self.correction_history.append(
            CorrectionEntry(
                correction_id=generate_correction_id(self.id, diff),
                source=source.value,
                reason=reason,
                applied_at=datetime.now(UTC),
            )
        )

    def take_pending(self) -> list[PendingCorrection]:
        """Undo the corrections that are not stored yet, and return them, so that the store can make them."""
        pending, self._pending = self._pending, []
        if pending:
            self.status, self.payload = pending[0].status_before, pending[0].payload_before
        return pending

    def own_values(self) -> dict[str, Any]:
        """The values that a write of this model sets: all but those that the store manages."""
        managed = {"id", "version", "created_at", "updated_at", "correction_history"}
        return {name: getattr(self, name) for name in type(self).model_fields if name not in managed}
