"""The keys of one namespace in the database, and the clock that scripts use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.clock import Clock

__all__ = ["Keyspace"]


class Keyspace:
    """One namespace. ``clock`` replaces the server's own clock, for tests."""

    def __init__(self, namespace: str, clock: Clock | None) -> None:
        self.prefix = f"interlock:{namespace}:"
        self._clock = clock

    def arguments(self) -> tuple[str, str]:
        """Return the first two arguments of every script: the keys' prefix, and the time if a test controls it."""
        return self.prefix, "" if self._clock is None else str(round(self._clock.now() * 1e6))

    def channel(self, session: str) -> str:
        """Return the channel on which messages for a session are published."""
        return f"{self.prefix}session:{session}"
