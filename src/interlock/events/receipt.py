"""The receipt for a delivery."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Receipt", "ReceiptStatus"]


class ReceiptStatus(StrEnum):
    """The status of a delivery."""

    ACCEPTED = "accepted"
    """It was stored with its jobs."""
    DUPLICATE = "duplicate"
    """It was already accepted; nothing was stored."""
    IGNORED = "ignored"
    """No handler takes it; nothing was stored."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The status of a delivery, and the jobs that it caused."""

    status: ReceiptStatus
    event: int | None = None
    """The ID under which it is stored, now or since its first delivery; None if it is not."""
    jobs: tuple[int, ...] = ()
    """The jobs that this delivery caused."""
    cause: str = ""
    """Why it was not accepted."""
