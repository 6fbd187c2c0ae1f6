"""Which job each worker runs now, as far as it was written down.

A run lasts from the moment a handler began to the moment it ended, or its worker was killed or frozen. A worker that
was frozen for longer than its session may run on for a moment when it wakes up. Jobs that it had claimed before and
begins only then are late: they count for nothing, as their fences are stale and their acknowledgements are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.cli.demo.records import Record

__all__ = ["GONE", "Run", "Runs", "ended_at", "whose"]

_ENDS = ("ended", "failed", "stopped")
GONE = ("killed", "frozen")


@dataclass(slots=True)
class Run:
    """A handler at work."""

    who: str
    job: int
    handler: str
    delivery: str
    began: float
    asked: float
    fence: int
    attempt: int
    by_hand: bool
    """Whether somebody had an event replayed or a job retried, which comes at the end of the line again."""
    late: bool
    """Whether its worker had claimed it before it was frozen, and does not know yet what it has missed."""


@dataclass(slots=True)
class Runs:
    """All of them."""

    by_job: dict[int, Run] = field(default_factory=dict)
    woke: dict[str, float] = field(default_factory=dict)
    """When each worker that was frozen woke up."""

    def hear(self, record: Record) -> tuple[Run | None, list[Run]]:
        """The run that begins with this record, if one does, and those that end."""
        what = record["what"]
        if what == "began":
            return self._began(record), []
        if what in _ENDS:
            run = self.by_job.get(record["job"])
            if run is None or run.who != record["who"]:
                return None, []
            return None, [self.by_job.pop(run.job)]
        if what in GONE:
            return None, self._gone(whose(record))
        if what == "thawed":
            self.woke[record["who"]] = record["at"]
        return None, []

    def of(self, who: str) -> list[Run]:
        """What a worker is at."""
        return [run for run in self.by_job.values() if run.who == who]

    def _began(self, record: Record) -> Run:
        run = Run(
            record["who"],
            record["job"],
            record["handler"],
            record["delivery"],
            record["at"],
            record["asked"],
            record["fence"],
            record["attempt"],
            record.get("replay", False),
            record["asked"] < self.woke.get(record["who"], -math.inf),
        )
        if not run.late:
            self.by_job[run.job] = run
        return run

    def _gone(self, who: str) -> list[Run]:
        self.woke.pop(who, None)
        runs = self.of(who)
        for run in runs:
            del self.by_job[run.job]
        return runs


def ended_at(record: Record) -> float:
    """When it was so: a kill counts from its signal, though it is written down when the process is gone."""
    return float(record["sent"] if "sent" in record else record["at"])


def whose(record: Record) -> str:
    """Whom it is about: what the director writes down is about a worker."""
    return str(record["victim"] if "victim" in record else record["who"])
