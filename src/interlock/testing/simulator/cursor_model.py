"""A model of a cursor store: a cursor moves only from the position that was read, and no move is lost or repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.cursors import Moved
from interlock.testing.simulator.events import CursorMoved, CursorRead, CursorSaid
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from interlock.ports.cursors import CursorView
    from interlock.testing.simulator.history import Event

__all__ = ["CursorModel"]


class CursorModel:
    """Follow a store's cursors event by event."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._stands: dict[str, CursorView] = {}
        self._moved: dict[str, CursorView] = {}
        self._values: set[tuple[str, str]] = set()
        self._version = 0
        self._at = 0.0

    def apply(self, event: Event) -> None:
        """Process one event."""
        self._at = event.at
        match event:
            case CursorRead(_, _, name, view):
                if view != self._stands.get(name):
                    self._broken(f"{name} was read at a different position than its current one")
            case CursorMoved():
                self._move(event)
            case CursorSaid(_, _, name, value, outcome):
                if (outcome == "moved") > ((name, value) in self._values):
                    self._broken(f"a move of {name} was reported as done, but had no effect")
                if outcome == "conflict" and (name, value) in self._values:
                    self._broken(f"a move of {name} was reported as a conflict, but took effect")
            case _:
                pass

    def _move(self, event: CursorMoved) -> None:
        move, answer = event.move, event.answer
        stands = self._stands.get(move.name)
        if move.id in self._moved:
            if not isinstance(answer, Moved) or answer.view != self._moved[move.id]:
                self._broken(f"a repeated move of {move.name} was not recognized as done")
        elif move.expected != (stands.version if stands else 0):
            if isinstance(answer, Moved):
                self._broken(f"{move.name} was moved from a position that was not current")
        elif not isinstance(answer, Moved):
            self._broken(f"a valid move of {move.name} was refused")
        if isinstance(answer, Moved) and move.id not in self._moved:
            if answer.view.version <= self._version or answer.view.value != move.value:
                self._broken(f"{move.name} was moved to a different value, or to an old version")
            self._version = max(self._version, answer.view.version)
            self._stands[move.name] = self._moved[move.id] = answer.view
            self._values.add((move.name, move.value))

    def _broken(self, what: str) -> None:
        self.violations.append(Violation(self._at, "moves", what))
