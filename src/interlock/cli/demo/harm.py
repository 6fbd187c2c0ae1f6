"""The fault plan: kills and freezes that leave something to take over, and holds of a lane."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.bot import SESSION_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FROZEN_SECONDS", "HOLD_REASON", "HOLD_SECONDS", "Harm"]

FROZEN_SECONDS = SESSION_SECONDS + 4.0
HOLD_SECONDS = 5.0
HOLD_REASON = "ann is investigating"
_FIRST_KILL = 2.5
_KILL_EVERY = 7.0
_FIRST_FREEZE = 7.0
_FREEZE_EVERY = 25.0
_FIRST_HOLD = 4.0
_HOLD_EVERY = 15.0
_CHOOSY_SECONDS = 2.0
"""How long to wait for a victim that holds a lock with waiters."""
_CALM_SECONDS = SESSION_SECONDS + 1.0
"""Minimum time between faults: at least one worker must be able to take over."""
_RICH = 5


@dataclass(slots=True)
class Harm:
    """A plan that is renewed each time it was carried out."""

    chance: random.Random = field(default_factory=random.Random)
    kill_at: float = _FIRST_KILL
    freeze_at: float = _FIRST_FREEZE
    hold_at: float = _FIRST_HOLD

    def victim(self, now: float, riches: Mapping[str, int], at_hand: Sequence[str]) -> tuple[str, str] | None:
        """The next fault and its victim: kill or freeze, preferring a worker with much to take over."""
        due = min(self.kill_at, self.freeze_at)
        if now < due or not at_hand:
            return None
        richest = max(at_hand, key=lambda name: riches.get(name, 0))
        if riches.get(richest, 0) < _RICH and now < due + _CHOOSY_SECONDS:
            return None
        if now >= self.freeze_at:
            self.freeze_at = now + _FREEZE_EVERY * self.chance.uniform(0.8, 1.2)
            self.kill_at = max(self.kill_at, now + FROZEN_SECONDS + 1.0)
            return "freeze", richest
        self.kill_at = now + _KILL_EVERY * self.chance.uniform(0.8, 1.2)
        self.freeze_at = max(self.freeze_at, now + _CALM_SECONDS)
        return "kill", richest

    def hold(self, now: float, lanes: Sequence[str]) -> str:
        """The lane to hold now; empty for none."""
        if now < self.hold_at or not lanes:
            return ""
        self.hold_at = now + _HOLD_EVERY * self.chance.uniform(0.8, 1.2)
        return self.chance.choice(lanes)
