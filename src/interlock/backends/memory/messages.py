"""Messages as direct calls: everything happens on one event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MemoryMessages"]


class MemoryMessages:
    """Keeps the messages port."""

    def __init__(self) -> None:
        self._listeners: dict[str, tuple[Callable[[str | None], None], Callable[[str, str], None]]] = {}

    async def listen(
        self, session: str, on_turn: Callable[[str | None], None], on_lost: Callable[[str, str], None]
    ) -> None:
        """Call back from now on."""
        self._listeners[session] = (on_turn, on_lost)

    async def unlisten(self, session: str) -> None:
        """Stop calling back."""
        self.session_ended(session)

    def watch(self, *, waiting: bool) -> None:
        """Nothing to look out for: callbacks are direct."""

    def turn(self, session: str, owner: str) -> None:
        """Tell a session that it may be the owner's turn."""
        if session in self._listeners:
            self._listeners[session][0](owner)

    def lost(self, session: str, owner: str, why: str) -> None:
        """Tell a session that what the owner held was taken from it."""
        if session in self._listeners:
            self._listeners[session][1](owner, why)

    def session_ended(self, session: str) -> None:
        """Nobody is left to tell."""
        self._listeners.pop(session, None)
