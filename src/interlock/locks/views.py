"""Locks as a program sees them: one key, its holder and its waiters. Times are aware and in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_datetime, as_optional_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports import locks as port

__all__ = ["Holder", "LockView", "Waiter", "holder_view", "lock_view"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a key."""

    owner: str
    """The ID of the granted request."""
    caller: str
    """The job or asyncio task that holds it."""
    session: str
    host: str
    pid: int
    program: str
    fence: int
    granted_at: datetime
    expires_at: datetime
    """The earlier of the lease's and the session's expiry, unless they are renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """One waiter in a key's queue."""

    owner: str
    """The ID of the waiting request."""
    caller: str
    """The job or asyncio task that waits."""
    session: str
    host: str
    pid: int
    program: str
    asked_at: datetime
    gives_up_at: datetime | None
    """None: it waits without a limit."""
    live: bool
    """False if its process has ended or its time to wait is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockView:
    """One key in a consistent snapshot: its live holder, if any, and its queue in order."""

    key: str
    holder: Holder | None
    waiters: tuple[Waiter, ...]
    free_since: datetime | None
    """Set while the key is free and reserved for the first waiter."""
    seen_at: datetime
    more_waiters: int = 0
    """The number of waiters beyond those shown, counted up to 10,000."""


def lock_view(row: port.LockView) -> LockView:
    """The view of a key, from what the store returned."""
    return LockView(
        key=row.key,
        holder=None if row.holder is None else holder_view(row.holder),
        waiters=tuple(_waiter_view(waiter) for waiter in row.waiters),
        free_since=as_optional_datetime(row.free_since),
        seen_at=as_datetime(row.seen_at),
        more_waiters=row.more_waiters,
    )


def holder_view(row: port.Holder) -> Holder:
    """The view of a holder, from what the store returned."""
    data: dict[str, Any] = row._asdict()
    data["granted_at"], data["expires_at"] = as_datetime(row.granted_at), as_datetime(row.expires_at)
    return Holder(**data)


def _waiter_view(row: port.Waiter) -> Waiter:
    data: dict[str, Any] = row._asdict()
    data["asked_at"], data["gives_up_at"] = as_datetime(row.asked_at), as_optional_datetime(row.gives_up_at)
    return Waiter(**data)
