"""What the audit looks for in comments, which are jobs with lanes: none lost, none out of order, none counted twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.spans import Span, overlaps, spans, taken_over_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.cli.demo.records import Record

__all__ = ["CommentFindings", "audit_comments"]


@dataclass(slots=True)
class CommentFindings:
    """Counts: what happened, then what must never happen."""

    enqueued: int = 0
    done: int = 0
    failures: int = 0
    refused: int = 0
    """Acknowledgements that came too late."""
    quarantined: int = 0
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the death of the worker that ran a comment to the next begin in its lane."""

    lost: int = 0
    inversions: int = 0
    overlaps: int = 0
    twice: int = 0
    """Acknowledgements accepted for one comment beyond the first."""


def audit_comments(records: Sequence[Record], orders: Iterable[Record]) -> CommentFindings:
    """Count what the workers and the author wrote down."""
    enqueued = {record["job"] for record in orders if record["what"] == "enqueued"}
    acknowledged = Counter(_jobs(records, "comment acknowledged"))
    quarantined = set(_jobs(records, "comment quarantined"))
    by_lane: dict[str, list[Span]] = defaultdict(list)
    for span in spans(records, "comment began", "comment ended", "comment failed", "comment stopped", apart_by="lane"):
        by_lane[span.first["lane"]].append(span)
    done = acknowledged.keys() | _proven(by_lane.values())
    return CommentFindings(
        enqueued=len(enqueued),
        done=len(done & enqueued),
        failures=sum(1 for _ in _jobs(records, "comment failed")),
        refused=sum(1 for _ in _jobs(records, "comment refused")),
        quarantined=len(quarantined),
        takeovers=[seconds for lane in by_lane.values() for seconds in taken_over_after(lane)],
        lost=len(enqueued - done - quarantined),
        inversions=sum(map(_inversions, by_lane.values())),
        overlaps=sum(map(overlaps, by_lane.values())),
        twice=sum(count - 1 for count in acknowledged.values()),
    )


def _jobs(records: Iterable[Record], what: str) -> Iterable[int]:
    return (record["job"] for record in records if record["what"] == what)


def _proven(lanes: Iterable[Sequence[Span]]) -> set[int]:
    """What was done, though the one who knew was killed before it could say so.

    Its handler had ended well; and either the lane went on after that, or it was the last thing its worker did.
    """
    proven: set[int] = set()
    for lane in lanes:
        furthest = max(span.first["number"] for span in lane)
        for span in lane:
            well = span.ended_by == "comment ended"
            if well and (span.first["number"] < furthest or span.killed):
                proven.add(span.first["job"])
    return proven


def _inversions(lane: Iterable[Span]) -> int:
    """Begins of a comment after a later one of its lane had begun."""
    count = furthest = 0
    for span in lane:
        number = span.first["number"]
        count += number < furthest
        furthest = max(furthest, number)
    return count
