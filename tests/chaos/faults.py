"""What the nemesis did, and what that excuses: the part of judging that all runs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GRACE", "SLACK", "Body", "Fault", "Pauses", "data_losses"]

GRACE = 1.0
"""How long code may run on after a pause: the margin in which the library stops it, and some for a busy machine."""
SLACK = 0.3
"""How much later than planned a renewal may come on a busy machine."""


@dataclass(frozen=True)
class Fault:
    """Something that the nemesis did, to one process or (``who`` is None) to the store that all of them use."""

    kind: str
    begin: float
    end: float
    who: str | None = None


class Body(Protocol):
    """Code that ran in one process on the strength of something it held."""

    who: str
    ask: float
    ttl: float

    @property
    def left(self) -> float:
        """When it stopped."""
        ...


def data_losses(faults: Iterable[Fault]) -> list[Fault]:
    """The faults by which the store forgot everything."""
    return [fault for fault in faults if fault.kind.endswith("data lost")]


class Pauses:
    """Knows whose lease may have run out during a pause, so that the code ran on when it woke."""

    def __init__(self, faults: Iterable[Fault], session_ttl: float) -> None:
        self._session = session_ttl
        self._faults = list(faults)
        self._by_who: dict[str, list[Fault]] = {}
        for fault in self._faults:
            if fault.who is not None and fault.kind.endswith("pause"):
                self._by_who.setdefault(fault.who, []).append(fault)

    def excuse(self, one: Body) -> Fault | None:
        """The pause that was long enough for this body to lose its lease, if it stopped soon after it woke."""
        for pause in self._by_who.get(one.who, ()):
            near = pause.end > one.ask and pause.begin < one.left <= pause.end + GRACE
            if near and pause.end - pause.begin >= self._allowed(one, pause):
                return pause
        return None

    def _allowed(self, one: Body, pause: Fault) -> float:
        """The shortest pause that can outlast the lease, given when it was renewed last."""
        life = min(one.ttl, self._session)
        if any(f is not pause and f.begin < pause.end and f.end > pause.begin - life for f in self._faults):
            # Renewals may have been failing already: only the margin is left.
            return min(max(1.0, one.ttl * 0.05), one.ttl / 4, self._session / 5) - 0.1
        return life * 2 / 3 - SLACK
