"""From when to when somebody was at something, as far as it was written down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.cli.demo.records import Record

__all__ = ["Span", "ended_at", "most_at_once", "overlaps", "spans", "taken_over_after", "whose"]

_GONE = ("killed", "frozen")


@dataclass(slots=True)
class Span:
    """Somebody at work. It lasts until the worker said that it stopped, was killed, or was frozen."""

    who: str
    first: Record
    begin: float
    end: float = math.inf
    ended_by: str = ""


def spans(records: Iterable[Record], begin: str, *ends: str) -> list[Span]:
    """All spans that begin and end with these records, in the order in which they began."""
    found: list[Span] = []
    at_work: dict[str, Span] = {}
    for record in records:
        who = whose(record)
        if record["what"] == begin:
            at_work[who] = Span(who, record, record["at"])
            found.append(at_work[who])
        elif record["what"] in (*ends, *_GONE) and (span := at_work.pop(who, None)) is not None:
            span.end, span.ended_by = ended_at(record), record["what"]
    return found


def ended_at(record: Record) -> float:
    """When it was so: a kill counts from its signal, though it is written down when the process is gone."""
    return float(record["sent"] if "sent" in record else record["at"])


def whose(record: Record) -> str:
    """Whom it is about: what the director writes down is about a worker."""
    return str(record["victim"] if "victim" in record else record["who"])


def overlaps(spans: Iterable[Span]) -> int:
    """How many began while another one lasted."""
    count = 0
    latest_end = -math.inf
    for span in spans:
        count += span.begin < latest_end
        latest_end = max(latest_end, span.end)
    return count


def most_at_once(spans: Iterable[Span]) -> int:
    """How many lasted at the same time, at the most."""
    steps = sorted([(span.begin, 1) for span in spans] + [(span.end, -1) for span in spans])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def taken_over_after(spans: Iterable[Span]) -> list[float]:
    """Seconds from the death of each one to the begin of the next."""
    return [after.begin - before.end for before, after in pairwise(spans) if before.ended_by in _GONE]
