"""Limits as a program sees them: who has started and who waits. Times are aware and in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime, as_optional_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports import limits as port

__all__ = ["LimitOverride", "LimitUser", "LimitView", "limit_view", "override_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitUser:
    """One reservation under a limit."""

    owner: str
    """The ID of the reservation."""
    caller: str
    """The job or asyncio task that made it."""
    session: str
    host: str
    pid: int
    program: str
    count: int
    """How many starts its process allows."""
    per: float
    """In how many seconds; 0 for slots."""
    asked_at: datetime
    at: datetime | None
    """When it started, or may start; None while that depends on other reservations."""
    started: bool
    waits_for: str
    """The key of the limit that it waits for; empty if it waits for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitView:
    """One limit in a consistent snapshot."""

    key: str
    count: int
    """How many starts are allowed. Where processes disagree, the smaller number applies."""
    per: float
    """In how many seconds; 0 for slots."""
    started: tuple[LimitUser, ...]
    """Slots: who is working. Rates and cooldowns: the starts that still count, finished or not."""
    waiting: tuple[LimitUser, ...]
    """In the order in which they asked."""
    free_since: datetime | None
    """Set while a slot is free and reserved for the first in line."""
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOverride:
    """A figure that a person set, instead of the one in the code."""

    name: str
    """The limit (``slots:containers``), for all of its keys, or one whole key."""
    count: int
    per: float
    """In how many seconds; 0 for slots."""
    by: str
    reason: str
    at: datetime


def override_view(row: port.LimitOverride) -> LimitOverride:
    """The view of a figure that a person set."""
    return LimitOverride(
        name=row.name, count=row.max_count, per=row.per, by=row.set_by, reason=row.reason, at=as_datetime(row.set_at)
    )


def limit_view(row: port.LimitView) -> LimitView:
    """The view of a limit, from what the store returned."""
    return LimitView(
        key=row.key,
        count=row.max_count,
        per=row.per,
        started=tuple(map(_user_view, row.started)),
        waiting=tuple(map(_user_view, row.waiting)),
        free_since=as_optional_datetime(row.free_since),
        seen_at=as_datetime(row.seen_at),
    )


def _user_view(row: port.LimitUser) -> LimitUser:
    data: dict[str, Any] = row._asdict()
    data["count"] = data.pop("max_count")
    data["asked_at"], data["at"] = as_datetime(row.asked_at), as_optional_datetime(row.at)
    return LimitUser(**data)
