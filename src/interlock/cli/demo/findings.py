"""What an audit has found: what happened, and what must never happen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["FORBIDDEN", "Findings", "Takeovers"]

FORBIDDEN = {
    "webhooks lost": "lost",
    "webhooks handled twice": "doubled",
    "greetings given twice": "doubled",
    "webhooks out of order": "out of order",
    "two of a lane at once": "overlapping",
    "two at the same job": "overlapping",
    "two holders of a lock": "overlapping",
    "two greeting the same": "overlapping",
    "locks granted out of turn": "out of order",
    "fences going back": "stale writes",
    "stale writes accepted": "stale writes",
    "too many containers": "over a limit",
    "starts inside a cooldown": "over a limit",
    "forged or own ones handled": "unwanted",
    "wrong answers": "unwanted",
}
"""What must never happen, and what it is called in short."""
_EXAMPLES = 20


@dataclass(slots=True)
class Takeovers:
    """How long it took until somebody else went on where a worker was killed or frozen."""

    count: int = 0
    least: float = 0.0
    most: float = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self.least = seconds if not self.count else min(self.least, seconds)
        self.most = max(self.most, seconds)
        self.count += 1


@dataclass(slots=True)
class Findings:
    """Counts, which grow while the audit listens."""

    seen: Counter[str] = field(default_factory=Counter)
    """What happened."""
    wrong: Counter[str] = field(default_factory=Counter)
    """What must never happen."""
    examples: list[str] = field(default_factory=list)
    """The first of those, in words."""
    most_containers: int = 0
    locks_taken_over: Takeovers = field(default_factory=Takeovers)
    jobs_taken_over: Takeovers = field(default_factory=Takeovers)

    def found(self, what: str, how: str) -> None:
        """Something that must never happen."""
        assert what in FORBIDDEN, what
        self.wrong[what] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{what}: {how}")

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not self.wrong.total()

    @property
    def forbidden(self) -> dict[str, int]:
        """What must never happen, and how often it did."""
        return {what: self.wrong[what] for what in FORBIDDEN}

    @property
    def brief(self) -> dict[str, int]:
        """The same in fewer words."""
        short: Counter[str] = Counter(dict.fromkeys(FORBIDDEN.values(), 0))
        for what, count in self.wrong.items():
            short[FORBIDDEN[what]] += count
        return dict(short)
