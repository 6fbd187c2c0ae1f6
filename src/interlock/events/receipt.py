"""What whoever handed in an event is told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Receipt", "Verdict"]


class Verdict(StrEnum):
    """What became of a delivery."""

    ACCEPTED = "accepted"
    """It is kept, and its jobs are."""
    DUPLICATE = "duplicate"
    """It was accepted before; nothing was stored."""
    IGNORED = "ignored"
    """Nobody wants to hear of it; nothing was stored."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a delivery, and what it caused."""

    verdict: Verdict
    event: int | None = None
    """Under which id it is kept, now or since it came first; None if it is not."""
    jobs: tuple[int, ...] = ()
    """The jobs that it caused now."""
    reason: str = ""
    """Why it was not accepted, or not anew."""
