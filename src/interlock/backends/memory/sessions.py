"""Sessions in a dictionary."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock.clock import Clock
    from interlock.ports.sessions import SessionCard

__all__ = ["MemorySessions"]


class MemorySessions:
    """Implements the sessions port: the expiry of each session."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now
        self.cards: dict[str, SessionCard] = {}
        self.alive_until: dict[str, float] = {}
        self.leaving: set[str] = set()
        """Sessions whose process is shutting down."""
        self.blocked: dict[str, tuple[float, str]] = {}
        """Sessions whose event loop is blocked: since when and by what."""
        self.on_change: list[Callable[[str], None]] = []
        """Called when a session started, was renewed or ended."""
        self.on_end: list[Callable[[str], None]] = []
        self.sweepers: list[Callable[[], int]] = []

    async def begin(self, card: SessionCard, seconds: float) -> None:
        """Start a session."""
        if card.id not in self.cards:
            self.cards[card.id] = card
            self.alive_until[card.id] = self._now() + seconds
            self._changed(card.id)

    async def renew(self, id: str, seconds: float) -> bool:  # noqa: A002
        """Renew a live session."""
        now = self._now()
        if self.alive_until.get(id, 0.0) <= now:
            return False
        self.alive_until[id] = now + seconds
        self._changed(id)
        return True

    async def note_blocked(self, id: str, seconds: float | None, by: str = "") -> None:  # noqa: A002
        """Record whether the event loop of the session's process is blocked."""
        if id in self.cards:
            if seconds is None:
                self.blocked.pop(id, None)
            else:
                self.blocked[id] = self._now() - seconds, by
            self._changed(id)

    async def end(self, id: str) -> None:  # noqa: A002
        """End a session and free what it held."""
        if self.cards.pop(id, None):
            del self.alive_until[id]
            self.blocked.pop(id, None)
            self._changed(id)
            self.leaving.discard(id)
            for ended in self.on_end:
                ended(id)

    async def leave(self, id: str, *, leaving: bool = True) -> None:  # noqa: A002
        """Record that the process is shutting down."""
        if id in self.cards:
            (self.leaving.add if leaving else self.leaving.discard)(id)
            self._changed(id)

    async def sweep(self) -> int:
        """Delete expired sessions and what they held, and let the other parts sweep too."""
        now = self._now()
        gone = [id for id, until in self.alive_until.items() if until <= now]  # noqa: A001
        for id in gone:  # noqa: A001
            await self.end(id)
        return len(gone) + sum(swept() for swept in self.sweepers)

    def _changed(self, id: str) -> None:  # noqa: A002
        for changed in self.on_change:
            changed(id)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
