"""Lifetimes: sessions by the store's clock, and processes that were suspended or killed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from interlock.testing.simulator.history import (
    CrashedAt,
    PausedAt,
    SessionBegan,
    SessionOver,
    SessionRenewed,
    Swept,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.testing.simulator.history import Event

__all__ = ["GRACE", "Sessions", "Standstills", "Tenure"]

GRACE = 0.05
"""Time from waking up, or from a message, to the end of a body: steps take almost no time."""


class Tenure:
    """One owner's lease, and from when to when it was held."""

    __slots__ = ("began_at", "ended_at", "forced", "key", "owner", "process", "session", "ttl")

    def __init__(self, owner: str, key: str, session: str, process: str, began_at: float, ttl: float) -> None:
        self.owner, self.key, self.session, self.process = owner, key, session, process
        self.began_at = began_at
        self.ended_at = math.inf
        self.ttl = ttl
        """How long it may last without a renewal."""
        self.forced = False
        """Whether an operator took it away."""


class Sessions:
    """Until when each session is live."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def apply(self, event: Event) -> str:
        """Process one event, and return what was wrong with it, if anything."""
        match event:
            case SessionBegan():
                self._until.setdefault(event.session, event.at + event.seconds)
            case SessionRenewed():
                alive = self.ends_at(event.session) > event.at
                if alive:
                    self._until[event.session] = event.at + event.seconds
                if alive != event.alive:
                    return "a session was renewed after its end, or not renewed although it was live"
            case SessionOver():
                self._until[event.session] = min(event.at, self.ends_at(event.session))
            case _:
                pass
        return ""

    def ends_at(self, session: str) -> float:
        """The end of a session unless it is renewed; minus infinity for one that never began."""
        return self._until.get(session, -math.inf)

    @staticmethod
    def cleared(event: Event) -> bool:
        """Whether this event sweeps ended sessions."""
        return isinstance(event, (SessionOver, Swept))


class Standstills:
    """When processes were suspended, and when they were killed."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._pauses: dict[str, list[tuple[float, float]]] = {}
        self._crashes: dict[str, float] = {}
        for event in events:
            if isinstance(event, PausedAt):
                self._add(event)
            elif isinstance(event, CrashedAt):
                self._crashes[event.process] = event.at

    def _add(self, event: PausedAt) -> None:
        """Merge adjacent pauses into one."""
        pauses = self._pauses.setdefault(event.process, [])
        if pauses and event.at <= pauses[-1][1] + GRACE:
            pauses[-1] = (pauses[-1][0], max(pauses[-1][1], event.until))
        else:
            pauses.append((event.at, event.until))

    def crashed_at(self, process: str) -> float:
        """When it was killed; infinity if it was not."""
        return self._crashes.get(process, math.inf)

    def paused(self, process: str, since: float, until: float) -> float:
        """For how long it was suspended between two times."""
        spans = self._pauses.get(process, [])
        return sum(max(0.0, min(end, until) - max(begin, since)) for begin, end in spans)

    def slept_through(self, process: str, at: float, until: float) -> bool:
        """Whether it was suspended at a time and has woken up only just, if at all."""
        return any(stopped <= at and until <= woke + GRACE for stopped, woke in self._pauses.get(process, []))
