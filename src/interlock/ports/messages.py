"""Hints from the store to a process: whose turn may have come, and what was taken by force.

Messages only make things faster. Nothing relies on one arriving; whoever waits also looks now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Messages"]


class Messages(Protocol):
    """What a store has to tell one session, whichever of its ports it is about."""

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back on the caller's loop when a waiter of the session should ask again, or a lease was forced.

        Both name the owner. ``on_turn(None)`` means that messages may have been missed: all who wait should ask, all
        who hold should renew.
        """
        ...

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        ...

    def watch(self, *, waiting: bool) -> None:
        """Say whether anyone in this process waits, for stores that must look out while someone does."""
        ...
