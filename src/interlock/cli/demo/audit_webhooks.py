"""The audit of webhooks: each accepted webhook is handled, none twice, and no forged or own one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.bot import HEARD_BY

if TYPE_CHECKING:
    from interlock.cli.demo.findings import Findings
    from interlock.cli.demo.records import Record
    from interlock.cli.demo.runs import Run

__all__ = ["Delivery", "WebhookAudit"]

_KEPT_SECONDS = 600.0
_EXPECTED = {
    "good": ((202, "accepted"), (200, "duplicate")),
    "doomed": ((202, "accepted"), (200, "duplicate")),
    "forged": ((401, "refused"),),
    "own": ((200, "ignored"),),
}


@dataclass(slots=True)
class _Share:
    """One handler's work on one delivery."""

    job: int | None = None
    done: int | None = None
    """The fence of its accepted acknowledgement."""
    over: bool = False
    """Whether it is finished."""
    by_hand: bool = False


@dataclass(slots=True)
class Delivery:
    """One webhook, as far as it is known."""

    name: str
    lane: str
    number: int
    fate: str
    account: str
    shares: dict[str, _Share]
    taken: bool = False
    accepted: bool = False
    at: float = 0.0
    jobs: tuple[int, ...] = ()
    cancelled: int = 0
    """How many of its jobs were cancelled before they began; their handlers are not recorded."""

    @property
    def over(self) -> bool:
        """Whether every handler has finished with it."""
        return sum(not share.over for share in self.shares.values()) <= self.cancelled


@dataclass(slots=True)
class WebhookAudit:
    """All deliveries of one run; those that ended long ago are forgotten."""

    findings: Findings
    run: str
    under_way: int = 0
    _known: dict[str, Delivery] = field(default_factory=dict)
    _by_job: dict[int, tuple[Delivery, _Share]] = field(default_factory=dict)
    """Jobs that have begun."""
    _caused: dict[int, Delivery] = field(default_factory=dict)
    _over: deque[Delivery] = field(default_factory=deque)

    def __getitem__(self, delivery: str) -> Delivery | None:
        return self._known.get(delivery)

    def hear(self, record: Record, begun: Run | None) -> None:
        """Process a record."""
        match record["what"]:
            case "posting":
                self._posting(record)
            case "answered":
                self._answered(record)
            case "began" if begun is not None:
                self._began(begun)
            case "ended" | "failed" | "finished" | "quarantined" | "cancelled" | "retried":
                self._about_job(record)

    def is_by_hand(self, job: int) -> bool:
        """Whether an operator retried this job."""
        found = self._by_job.get(job)
        return found is not None and found[1].by_hand

    def close(self) -> None:
        """Count webhooks that are not handled as lost."""
        for delivery in self._known.values():
            if delivery.taken and not delivery.over:
                missing = ", ".join(name for name, share in delivery.shares.items() if not share.over)
                self.findings.found("webhooks lost", f"{delivery.name} ({delivery.lane or 'no lane'}) by {missing}")

    def _posting(self, record: Record) -> None:
        wanted = record["fate"] in ("good", "doomed")
        shares = {name: _Share() for name in HEARD_BY[record["type"]]} if wanted else {}
        name = record["delivery"]
        self._known[name] = Delivery(
            name, record["lane"], record["number"], record["fate"], record["account"], shares, at=record["at"]
        )
        self.findings.seen["webhooks"] += 1
        if not wanted:
            self._over.append(self._known[name])

    def _answered(self, record: Record) -> None:
        delivery = self._known.get(record["delivery"])
        if delivery is None:
            return
        self.findings.seen["posts"] += 1
        answer = (record["status"], record["verdict"])
        if record["status"] in (0, 503):
            self.findings.seen["no answer"] += 1
            return
        if answer not in _EXPECTED[delivery.fate]:
            self.findings.found("wrong responses", f"{delivery.fate} {delivery.name}: {answer[0]} {answer[1]}")
            return
        self.findings.seen[record["verdict"]] += 1
        if record["verdict"] == "accepted":
            if delivery.accepted:
                self.findings.found("webhooks handled twice", f"{delivery.name} was accepted twice")
            delivery.accepted = True
            delivery.jobs = tuple(record["jobs"])
            self._caused.update(dict.fromkeys(delivery.jobs, delivery))
        if delivery.shares and not delivery.taken:
            delivery.taken = True
            self.under_way += not delivery.over

    def _began(self, run: Run) -> None:
        if run.by_hand:
            self.findings.seen["manually"] += 1
            return
        if not run.delivery.startswith(self.run):
            self.findings.seen["of an earlier demo"] += 1
            return
        delivery = self._known.get(run.delivery)
        if delivery is None:
            self.findings.found("webhooks handled twice", f"{run.delivery} by {run.handler}, long after its end")
            return
        share = delivery.shares.get(run.handler)
        if share is None:
            self.findings.found("forged or own webhooks handled", f"{delivery.fate} {delivery.name} by {run.handler}")
            return
        if share.job not in (None, run.job):
            self.findings.found("webhooks handled twice", f"{run.delivery} as jobs {share.job} and {run.job}")
        elif share.done is not None and not share.by_hand and not run.late:
            self.findings.found("webhooks handled twice", f"job {run.job} began again after its end")
        share.job = run.job
        self._by_job[run.job] = (delivery, share)
        self.findings.seen["runs"] += 1

    def _about_job(self, record: Record) -> None:
        job = record["subject"] if "subject" in record else record["job"]
        found = self._by_job.get(job)
        if found is None:
            if record["what"] == "cancelled" and job in self._caused:
                self._cancelled(self._caused[job])
            return
        delivery, share = found
        match record["what"]:
            case "ended":
                self._through(delivery, share)
            case "failed":
                self.findings.seen["failures"] += 1
                if delivery.fate == "doomed":
                    self._through(delivery, share)
            case "finished":
                self._settled(record, delivery, share)
            case "quarantined" | "cancelled":
                self.findings.seen[record["what"]] += 1
                self._through(delivery, share)
            case "retried":
                share.by_hand = True
                share.done = None

    def _settled(self, record: Record, delivery: Delivery, share: _Share) -> None:
        if not record["accepted"]:
            self.findings.seen["late acknowledgements"] += record["outcome"] != "returned"
        elif record["outcome"] == "done":
            if share.done not in (None, record["fence"]):
                how = f"job {share.job} was acknowledged with fences {share.done} and {record['fence']}"
                self.findings.found("webhooks handled twice", how)
            share.done = record["fence"]
        elif record["outcome"] == "failed":
            self.findings.seen["failed permanently"] += 1
            self._through(delivery, share)

    def _cancelled(self, delivery: Delivery) -> None:
        self.findings.seen["cancelled"] += 1
        if not delivery.over:
            delivery.cancelled += 1
            self._close(delivery)

    def _through(self, delivery: Delivery, share: _Share) -> None:
        if not share.over and not delivery.over:
            share.over = True
            self._close(delivery)

    def _close(self, delivery: Delivery) -> None:
        """Forget it after a while, if it is finished."""
        if delivery.over:
            self.findings.seen["handled"] += 1
            self.under_way -= delivery.taken
            self._over.append(delivery)
            self._forget(delivery.at)

    def _forget(self, now: float) -> None:
        while self._over and self._over[0].at < now - _KEPT_SECONDS:
            old = self._over.popleft()
            self._known.pop(old.name, None)
            for job in {*old.jobs, *(share.job for share in old.shares.values() if share.job is not None)}:
                self._by_job.pop(job, None)
                self._caused.pop(job, None)
