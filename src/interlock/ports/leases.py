"""Types shared by all leases: owner, expiry, renewal and session.

An ``owner`` identifies a request and the lease that answers it, so that asking again is safe. It belongs to one session
permanently. A lease is live while neither it nor its session has expired by the store's clock.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Held", "Renewed", "SessionEnded", "Turns"]


class Held(NamedTuple):
    """A lease to renew."""

    key: str
    owner: str
    ttl: float


class Renewed(NamedTuple):
    """The result of a renewal: the new expiry, or None and why the lease had ended."""

    owner: str
    expires_at: float | None
    why: str


class SessionEnded(NamedTuple):
    """The session of the request has ended; nothing was changed."""


class Turns(NamedTuple):
    """Owners whose turn may have come, and the number of seconds after which to check again."""

    owners: tuple[str, ...]
    recheck_in: float
