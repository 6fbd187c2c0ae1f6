"""What all that is owned has in common: an owner, an expiry, a session, and the need to be renewed.

An ``owner`` identifies one request and what answers it, so that asking again is safe. It belongs to one session for
ever. What is owned is live while its own expiry and its session's both lie ahead by the store's clock.
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
    """What became of a renewal: the new expiry, or None and why the lease had ended before."""

    owner: str
    expires_at: float | None
    why: str


class SessionEnded(NamedTuple):
    """The asker's session is not alive; nothing was changed."""


class Turns(NamedTuple):
    """Whose turn may have come, and after how many seconds to look again at the latest."""

    owners: tuple[str, ...]
    look_again: float
