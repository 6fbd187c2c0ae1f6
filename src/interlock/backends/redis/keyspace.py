"""Where in the database a namespace's keys are, and by which clock: what every script is told first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.clock import Clock

__all__ = ["Place"]


class Place:
    """One namespace. ``clock`` replaces the server's own clock, for tests."""

    def __init__(self, namespace: str, clock: Clock | None) -> None:
        self.prefix = f"interlock:{namespace}:"
        self._clock = clock

    def here(self) -> tuple[str, str]:
        """The first two arguments of every script: the keys' prefix, and the time if a test gives it."""
        return self.prefix, "" if self._clock is None else str(round(self._clock.now() * 1e6))

    def channel(self, session: str) -> str:
        """Where messages for a session are published."""
        return f"{self.prefix}session:{session}"
