"""The audit of containers and greetings: never too many or too soon, and each person greeted once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.bot import COOLDOWN_SECONDS, MAX_CONTAINERS

if TYPE_CHECKING:
    from interlock.cli.demo.audit_webhooks import WebhookAudit
    from interlock.cli.demo.findings import Findings
    from interlock.cli.demo.records import Record
    from interlock.cli.demo.runs import Run

__all__ = ["ContainerAudit", "GreetingAudit"]

_MAX_GREETED = 20_000


@dataclass(slots=True)
class ContainerAudit:
    """Builds, which run in containers."""

    findings: Findings
    webhooks: WebhookAudit
    at_work: dict[int, Run] = field(default_factory=dict)
    _asked: dict[str, float] = field(default_factory=dict)

    def begun(self, run: Run) -> None:
        """A handler began.

        A start lies between the fetch of the job and the beginning of its handler. So two starts are no further apart
        than the beginning of the second one and the fetch of the first one.
        """
        delivery = self.webhooks[run.delivery]
        if run.handler != "build" or delivery is None:
            return
        self.at_work[run.job] = run
        self.findings.seen["containers"] += 1
        self.findings.max_containers = max(self.findings.max_containers, len(self.at_work))
        if len(self.at_work) > MAX_CONTAINERS:
            jobs = ", ".join(str(job) for job in self.at_work)
            self.findings.found("too many containers", f"{len(self.at_work)} at once: jobs {jobs}")
        before = self._asked.get(delivery.account)
        if before is not None and run.began - before < COOLDOWN_SECONDS:
            how = f"{delivery.account}: job {run.job} at most {run.began - before:.2f} s after the last"
            self.findings.found("starts inside a cooldown", how)
        self._asked[delivery.account] = run.asked

    def over(self, run: Run) -> None:
        """A handler ended."""
        self.at_work.pop(run.job, None)


@dataclass(slots=True)
class GreetingAudit:
    """Claims: each person is greeted once."""

    findings: Findings
    _greeting: dict[str, int] = field(default_factory=dict)
    """The jobs that are greeting, by person."""
    _greeted: dict[str, int] = field(default_factory=dict)

    def hear(self, record: Record, over: list[Run]) -> None:
        """Process a record."""
        match record["what"]:
            case "greets":
                self._greets(record["key"], record["job"])
            case "greeted":
                self._done(record["key"], record["job"])
            case "greeted before":
                self.findings.seen["greeted before"] += 1
            case "forgotten":  # an operator made it new again
                self._greeting.pop(record["subject"], None)
                self._greeted.pop(record["subject"], None)
        for run in over:
            for key in [key for key, job in self._greeting.items() if job == run.job]:
                del self._greeting[key]

    def _greets(self, key: str, job: int) -> None:
        other = self._greeting.get(key)
        if other not in (None, job):
            self.findings.found("two greetings at once", f"{key}: jobs {other} and {job}")
        self._greeting[key] = job

    def _done(self, key: str, job: int) -> None:
        self._greeting.pop(key, None)
        self.findings.seen["greeted"] += 1
        if key in self._greeted:
            self.findings.found("greetings given twice", f"{key}: jobs {self._greeted[key]} and {job}")
        self._greeted[key] = job
        if len(self._greeted) > _MAX_GREETED:
            del self._greeted[next(iter(self._greeted))]
