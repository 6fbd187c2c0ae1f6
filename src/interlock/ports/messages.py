"""Notifications from the store to a process: a turn that may have come, a lease that was taken by force.

Messages only reduce latency. Nothing relies on their delivery: waiters also check at intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Messages"]


class Messages(Protocol):
    """Notifications for the sessions of a process, shared by all ports of a store."""

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back on the caller's event loop when a waiter of the session should ask again, or a lease was taken.

        Both callbacks get the owner. ``on_turn(None)`` means that messages may have been missed: every waiter should
        ask again, and every holder should renew.
        """
        ...

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        ...

    def watch(self, *, waiting: bool) -> None:
        """Set whether this process has waiters, for stores that poll while there are any."""
        ...
