"""The audit: what really happened, from the records alone, without queries to the store.

The forge, the handlers, the target and the director write records. The audit reads them continuously and keeps only
what it still needs, so that it can run for hours. It counts everything that a promise forbids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.cli.demo.audit_lanes import LaneAudit
from interlock.cli.demo.audit_limits import ContainerAudit, GreetingAudit
from interlock.cli.demo.audit_locks import LockAudit
from interlock.cli.demo.audit_webhooks import WebhookAudit
from interlock.cli.demo.findings import Findings
from interlock.cli.demo.runs import GONE, Runs, ended_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.cli.demo.records import Record

__all__ = ["Audit"]

_MAX_BEREFT = 1000


class Audit:
    """Listens."""

    def __init__(self, run: str) -> None:
        self.findings = Findings()
        self.runs = Runs()
        self.webhooks = WebhookAudit(self.findings, run)
        self._lanes = LaneAudit(self.findings, self.webhooks)
        self._locks = LockAudit(self.findings)
        self._containers = ContainerAudit(self.findings, self.webhooks)
        self._greetings = GreetingAudit(self.findings)
        self._bereft: dict[int, float] = {}
        """Jobs whose worker was killed or frozen, and when."""

    @property
    def under_way(self) -> int:
        """How many webhooks were accepted and are not handled yet."""
        return self.webhooks.under_way

    def hear(self, records: Iterable[Record]) -> None:
        """Process the records since the last call."""
        for record in records:
            self._hear(record)

    def _hear(self, record: Record) -> None:
        other = self.runs.by_job.get(record["job"]) if record["what"] == "began" else None
        begun, over = self.runs.hear(record)
        if other is not None and begun is not None and not begun.late:
            how = f"job {begun.job}: {begun.who} while {other.who} was running it"
            self.findings.found("one job run twice at once", how)
        if record["what"] in GONE:
            self.findings.seen[record["what"]] += 1
        self.webhooks.hear(record, begun)
        self._locks.hear(record)
        self._greetings.hear(record, over)
        if begun is not None and not begun.late:
            begun.by_hand = begun.by_hand or self.webhooks.is_by_hand(begun.job)
            self._lanes.begun(begun)
            self._containers.begun(begun)
            if begun.job in self._bereft:
                self.findings.jobs_taken_over.add(begun.began - self._bereft.pop(begun.job))
        for run in over:
            self._lanes.over(run)
            self._containers.over(run)
            if record["what"] in GONE:
                self._bereft[run.job] = ended_at(record)
        while len(self._bereft) > _MAX_BEREFT:
            del self._bereft[next(iter(self._bereft))]

    def close(self) -> Findings:
        """End the audit: webhooks that were accepted and not handled are lost."""
        self.webhooks.close()
        return self.findings
