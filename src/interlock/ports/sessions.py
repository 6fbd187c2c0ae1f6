"""Sessions: the heartbeats of processes.

A lease ends when it or its session expires, whichever is earlier, by the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SessionCard", "SessionStore"]


@dataclass(frozen=True, slots=True)
class SessionCard:
    """The process behind a session, as people see it."""

    id: str
    host: str
    pid: int
    program: str


class SessionStore(Protocol):
    """Sessions in one store. All operations are idempotent."""

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session that expires in ``seconds``. An ID is used only once."""
        ...

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Extend a live session to ``seconds`` from now. Return False, without a change, if it has ended."""
        ...

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record that the event loop of the session's process has been blocked for ``seconds`` by ``by``; None: it
        runs again. ``explain`` shows it for waiting jobs; a store without jobs may drop it."""
        ...

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session at once: release its leases, remove its waiters and notify the next ones."""
        ...

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Record durably that the process of a live session is shutting down or, with False, that it continues.

        Nothing else changes: the session still has to be renewed, and it ends like any other. If the process dies
        before it has returned its jobs, they are rescued without counting a crash.
        """
        ...

    async def sweep(self) -> int:
        """Remove a bounded number of old sessions, expired claims and idle limits; return how many. The caller repeats
        it while there is much to remove."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
