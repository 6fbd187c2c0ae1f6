"""Messages as direct calls: everything runs in one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryMessages"]


class MemoryMessages:
    """Implements the messages port."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Callable[[str | None], None], Callable[[str, str], None]]] = {}

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Start calling back."""
        self._listeners[session] = (on_turn, on_lost)

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        self.session_ended(session)

    def watch(self, *, waiting: bool) -> None:
        """Do nothing: callbacks are direct."""

    def turn(self, session: str, owner: str) -> None:
        """Notify a session that it may be the owner's turn."""
        if session in self._listeners:
            self._listeners[session][0](owner)

    def lost(self, session: str, owner: str, why: str) -> None:
        """Notify a session that an owner lost its lease."""
        if session in self._listeners:
            self._listeners[session][1](owner, why)

    def session_ended(self, session: str) -> None:
        """Forget a session that has ended."""
        self._listeners.pop(session, None)
