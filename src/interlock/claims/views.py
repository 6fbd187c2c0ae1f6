"""Claims as a program sees them. Times are aware and in UTC, results are decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime, as_optional_datetime
from interlock.values import decoded

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports import claims as port
    from interlock.ports.claims import ClaimState

__all__ = ["ClaimView", "claim_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimView:
    """One claim that is kept."""

    key: str
    state: ClaimState
    attempt: int
    fence: int
    owner: str
    """The ID of the request that holds the claim, or held it last."""
    session: str
    host: str
    pid: int
    program: str
    claimed_at: datetime
    expires_at: datetime | None
    """In progress: when another process may take it over, unless it is renewed. In the past if the holder died."""
    finished_at: datetime | None
    """Done or failed: when."""
    retry_at: datetime | None
    """Failed: when it may be claimed again."""
    error: str
    """Failed: why."""
    result: Any
    """Done: what the holder left."""
    kept_until: datetime
    seen_at: datetime

    @property
    def live(self) -> bool:
        """Whether its holder is working on it."""
        return self.expires_at is not None and self.expires_at > self.seen_at


def claim_view(row: port.ClaimView) -> ClaimView:
    """The view of a claim, from what the store returned."""
    data: dict[str, Any] = row._asdict()
    for name in ("claimed_at", "kept_until", "seen_at"):
        data[name] = as_datetime(data[name])
    for name in ("expires_at", "finished_at", "retry_at"):
        data[name] = as_optional_datetime(data[name])
    data["result"] = None if row.result is None else decoded(row.result)
    return ClaimView(**data)
