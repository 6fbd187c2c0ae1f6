"""Signs of life of processes.

A lease ends at the earlier of its own expiry and its session's. What decides is the store's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["SessionCard", "SessionStore"]


@dataclass(frozen=True, slots=True)
class SessionCard:
    """Who a session is, for people who ask."""

    id: str
    host: str
    pid: int
    program: str


class SessionStore(Protocol):
    """Sessions in one store. All operations are idempotent."""

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session that lives for ``seconds`` from now. An id is used once; ended ids never come back."""
        ...

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Let a live session live for ``seconds`` from now. False, and no change, if it has ended already."""
        ...

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record that the event loop of the session's process has been blocked for ``seconds`` by ``by``; None: it
        runs again. Shown to those who ask why a job waits; a store without jobs may drop it."""
        ...

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session at once: its leases are free, its waiters gone, and whoever is next is told."""
        ...

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Note durably that the process of a live session was told to end, or, with False, that it goes on after all.

        Nothing else changes: the session still has to be renewed, and ends as others do. If the process then dies
        without having returned its jobs, they are rescued without counting a crash.
        """
        ...

    async def sweep(self) -> int:
        """Remove a bounded number of traces of sessions that ended long ago, of claims that need not be kept and of
        limits that are idle; says how many. Called again while it finds plenty."""
        ...

    async def close(self) -> None:
        """Let go of the connection behind this way to the store."""
        ...
