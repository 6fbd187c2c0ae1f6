"""From when to when somebody was at something, as far as it was written down."""

from __future__ import annotations

import math
from collections import defaultdict
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
    killed: bool = False
    """Whether the worker was killed without having begun anything else of the kind."""


def spans(records: Iterable[Record], begin: str, *ends: str, apart_by: str = "") -> list[Span]:
    """All spans that begin and end with these records, in the order in which they began.

    A worker is at one thing at a time, or, with the name of a field, at one for each value of that.
    """
    found: list[Span] = []
    at_work: dict[str, dict[object, Span]] = defaultdict(dict)
    latest: dict[str, dict[object, Span]] = defaultdict(dict)
    for record in records:
        who, part, what = whose(record), record.get(apart_by), record["what"]
        if what == begin:
            span = at_work[who][part] = latest[who][part] = Span(who, record, record["at"])
            found.append(span)
        elif what in ends and (ended := at_work[who].pop(part, None)) is not None:
            ended.end, ended.ended_by = ended_at(record), what
        elif what in _GONE:
            for span in at_work.pop(who, {}).values():
                span.end, span.ended_by = ended_at(record), what
            for span in latest.pop(who, {}).values() if what == "killed" else ():
                span.killed = True
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
