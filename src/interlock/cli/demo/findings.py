"""The findings of an audit: what happened, and violations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

__all__ = ["FORBIDDEN", "Findings", "Takeovers"]

FORBIDDEN = {
    "webhooks lost": "lost",
    "webhooks handled twice": "doubled",
    "greetings given twice": "doubled",
    "webhooks out of order": "out of order",
    "two jobs of a lane at once": "overlapping",
    "one job run twice at once": "overlapping",
    "two holders of a lock": "overlapping",
    "two greetings at once": "overlapping",
    "locks granted out of order": "out of order",
    "decreasing fences": "stale writes",
    "stale writes accepted": "stale writes",
    "too many containers": "over a limit",
    "starts inside a cooldown": "over a limit",
    "forged or own webhooks handled": "unwanted",
    "wrong responses": "unwanted",
}
"""Violations, and their short names."""
_EXAMPLES = 20


@dataclass(slots=True)
class Takeovers:
    """How long takeovers took after a worker was killed or frozen."""

    count: int = 0
    least: float = 0.0
    limit: float = 0.0

    def add(self, seconds: float) -> None:
        """Add one."""
        self.least = seconds if not self.count else min(self.least, seconds)
        self.limit = max(self.limit, seconds)
        self.count += 1


@dataclass(slots=True)
class Findings:
    """Counts, which grow while the audit reads."""

    seen: Counter[str] = field(default_factory=Counter)
    """Counts of what happened."""
    wrong: Counter[str] = field(default_factory=Counter)
    """Violations."""
    examples: list[str] = field(default_factory=list)
    """Descriptions of the first violations."""
    max_containers: int = 0
    locks_taken_over: Takeovers = field(default_factory=Takeovers)
    jobs_taken_over: Takeovers = field(default_factory=Takeovers)

    def found(self, what: str, how: str) -> None:
        """Count a violation."""
        assert what in FORBIDDEN, what
        self.wrong[what] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{what}: {how}")

    @property
    def clean(self) -> bool:
        """Whether there were no violations."""
        return not self.wrong.total()

    @property
    def forbidden(self) -> dict[str, int]:
        """Every violation with its count."""
        return {what: self.wrong[what] for what in FORBIDDEN}

    @property
    def brief(self) -> dict[str, int]:
        """The same with short names."""
        short: Counter[str] = Counter(dict.fromkeys(FORBIDDEN.values(), 0))
        for what, count in self.wrong.items():
            short[FORBIDDEN[what]] += count
        return dict(short)
