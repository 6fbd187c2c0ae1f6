"""What the audit looks for in containers: never too many at once, never too soon after one another."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from interlock.cli.demo.containers import COOLDOWN_SECONDS, MOST_CONTAINERS
from interlock.cli.demo.spans import most_at_once, spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.cli.demo.records import Record

__all__ = ["ContainerFindings", "audit_containers"]


@dataclass(slots=True)
class ContainerFindings:
    """Counts: what happened, then what must never happen."""

    started: int = 0
    at_once: int = 0
    """How many there were at the most."""

    too_many: int = 0
    too_soon: int = 0


def audit_containers(records: Sequence[Record]) -> ContainerFindings:
    """Count what workers wrote down."""
    found = spans(records, "container started", "container ended")
    at_once = most_at_once(found)
    return ContainerFindings(
        started=len(found),
        at_once=at_once,
        too_many=max(0, at_once - MOST_CONTAINERS),
        too_soon=_too_soon(span.first for span in found),
    )


def _too_soon(starts: Iterable[Record]) -> int:
    """Starts of one account that were too close for certain.

    A start lies between the question and the answer that a worker wrote down, so two starts are no further apart than
    the second one's answer and the first one's question.
    """
    by_account: dict[str, list[Record]] = defaultdict(list)
    for start in starts:
        by_account[start["account"]].append(start)
    return sum(
        after["at"] - before["asked"] < COOLDOWN_SECONDS
        for same_account in by_account.values()
        for before, after in pairwise(same_account)
    )
