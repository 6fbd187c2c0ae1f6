"""A re-evaluation: the request for a correction, and its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from bridge.core.enums import IntentStatusEnum, PhilosophicalActor

__all__ = ["ReEvaluationRequest", "ReEvaluationResponse"]


class ReEvaluationRequest(BaseModel):
    """A correction that an actor asks for."""

    model_config = ConfigDict(extra="forbid")

    intent_id: UUID
    diff: dict[str, Any]
    """Absolute values: ``{"payload": {"a": 1}}`` or ``{"payload.a": 1}``."""
    source: PhilosophicalActor
    reason: str = Field(min_length=1, max_length=1000)
    metadata: dict[str, Any] | None = None
    key: str | None = Field(default=None, min_length=1, max_length=200)
    """Names the correction. Without it, the same diff for the same intent counts as the same correction."""


class ReEvaluationResponse(BaseModel):
    """The outcome of a correction."""

    intent_id: UUID
    status: IntentStatusEnum
    already_applied: bool
    correction_id: str
    applied_at: datetime
    """When it was applied first."""
    correction_count: int
