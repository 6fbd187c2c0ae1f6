"""What really happened, from what was written down alone: neither the store nor the screen is asked.

Work lasts from the moment a worker knew that it may begin to the moment it stopped, was killed, or was frozen. Anything
that a promise forbids is counted, whoever may be at fault.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.audit_comments import CommentFindings, audit_comments
from interlock.cli.demo.audit_containers import ContainerFindings, audit_containers
from interlock.cli.demo.audit_deliveries import DeliveryFindings, audit_deliveries
from interlock.cli.demo.audit_locks import LockFindings, audit_locks
from interlock.cli.demo.comments import ORDERS
from interlock.cli.demo.deliveries import INBOX
from interlock.cli.demo.records import Reader
from interlock.cli.demo.target import LEDGER
from interlock.cli.demo.worker import LOG

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from interlock.cli.demo.records import Record

__all__ = ["Findings", "audit", "read_records"]


@dataclass(slots=True)
class Findings:
    """The audit's counts."""

    kills: int = 0
    freezes: int = 0
    writes: int = 0
    refused: int = 0
    stale_accepted: int = 0
    locks: LockFindings = field(default_factory=LockFindings)
    deliveries: DeliveryFindings = field(default_factory=DeliveryFindings)
    containers: ContainerFindings = field(default_factory=ContainerFindings)
    comments: CommentFindings = field(default_factory=CommentFindings)

    @property
    def forbidden(self) -> dict[str, int]:
        """What must never happen, and how often it did."""
        return {
            "two holders of a lock": self.locks.overlaps,
            "fences going back": self.locks.fences_back,
            "order inversions": self.locks.inversions,
            "stale writes accepted": self.stale_accepted,
            "deliveries handled twice": self.deliveries.twice,
            "deliveries lost": self.deliveries.lost,
            "two at work on a delivery": self.deliveries.overlaps,
            "too many containers": self.containers.too_many,
            "starts inside a cooldown": self.containers.too_soon,
            "comments lost": self.comments.lost,
            "comments out of order": self.comments.inversions,
            "two comments of a lane at once": self.comments.overlaps,
            "comments acknowledged twice": self.comments.twice,
        }

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not any(self.forbidden.values())


def audit(directory: Path) -> Findings:
    """Count everything that was written down in a directory."""
    records = read_records(directory)
    ledger = list(Reader(directory / LEDGER).new())
    return Findings(
        kills=sum(record["what"] == "killed" for record in records),
        freezes=sum(record["what"] == "frozen" for record in records),
        writes=sum(write["accepted"] for write in ledger),
        refused=sum(not write["accepted"] for write in ledger),
        stale_accepted=_stale_accepted(ledger),
        locks=audit_locks(records),
        deliveries=audit_deliveries(records, Reader(directory / INBOX).new()),
        containers=audit_containers(records),
        comments=audit_comments(records, Reader(directory / ORDERS).new()),
    )


def read_records(directory: Path) -> list[Record]:
    """The workers' and the director's log in the order of time."""
    return sorted(Reader(directory / LOG).new(), key=lambda record: record["at"])


def _stale_accepted(ledger: Iterable[Record]) -> int:
    """Writes that the target took although it had seen a larger fence; the ledger's order is the target's own."""
    largest: dict[str, int] = defaultdict(int)
    count = 0
    for write in ledger:
        key, fence = write["key"], write["fence"]
        count += write["accepted"] and fence < largest[key]
        if write["accepted"]:
            largest[key] = max(largest[key], fence)
    return count
