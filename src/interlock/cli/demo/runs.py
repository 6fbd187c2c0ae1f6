"""The jobs that each worker is running, according to the records.

A run lasts from the beginning of a handler until it ended, or until its worker was killed or frozen. A worker that was
frozen for longer than its session may run on for a moment when it wakes up. Jobs that it had fetched before and
starts only then are late: they do not count, because their fences are stale and their acknowledgements are refused.
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
    """Whether an operator replayed the event or retried the job, which goes to the end of the lane."""
    late: bool
    """Whether its worker had fetched it before it was frozen, and has not noticed yet."""


@dataclass(slots=True)
class Runs:
    """All runs."""

    by_job: dict[int, Run] = field(default_factory=dict)
    woke: dict[str, float] = field(default_factory=dict)
    """When each worker that was frozen woke up."""

    def hear(self, record: Record) -> tuple[Run | None, list[Run]]:
        """The run that begins with this record, if any, and the runs that end."""
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
        """The runs of a worker."""
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
    """The time of a record: a kill counts from its signal, although it is recorded when the process is gone."""
    return float(record["sent"] if "sent" in record else record["at"])


def whose(record: Record) -> str:
    """The worker that a record is about, also for records of the director."""
    return str(record["victim"] if "victim" in record else record["who"])
