"""What the audit looks for in deliveries: each handled, none twice, and never two at work on the same one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.cli.demo.spans import Span, overlaps, spans, taken_over_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.cli.demo.records import Record

__all__ = ["DeliveryFindings", "audit_deliveries"]


@dataclass(slots=True)
class DeliveryFindings:
    """Counts: what happened, then what must never happen."""

    sent: int = 0
    handled: int = 0
    duplicates: int = 0
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the death of the one who worked on a delivery to the next one's begin."""

    twice: int = 0
    lost: int = 0
    overlaps: int = 0


def audit_deliveries(records: Sequence[Record], inbox: Iterable[Record]) -> DeliveryFindings:
    """Count what workers and the sender wrote down."""
    sent = {record["delivery"] for record in inbox}
    handled = Counter(record["delivery"] for record in records if record["what"] == "handled")
    duplicates = [record for record in records if record["what"] == "duplicate"]
    # Who was killed just after it had said so has written nothing down, but the others were told.
    known = handled.keys() | {record["delivery"] for record in duplicates if record["state"] == "done"}
    by_delivery: dict[str, list[Span]] = defaultdict(list)
    for span in spans(records, "claimed", "handled", "gave up"):
        by_delivery[span.first["delivery"]].append(span)
    return DeliveryFindings(
        sent=len(sent),
        handled=len(known),
        duplicates=len(duplicates),
        takeovers=[seconds for spans in by_delivery.values() for seconds in taken_over_after(spans)],
        twice=sum(count - 1 for count in handled.values()),
        lost=len(sent - known),
        overlaps=sum(map(overlaps, by_delivery.values())),
    )
