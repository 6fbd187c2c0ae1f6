"""What the audit looks for in locks: one holder at a time, growing fences, first come first served."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from interlock.cli.demo.spans import Span, ended_at, overlaps, spans, taken_over_after, whose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.cli.demo.records import Record

__all__ = ["LockFindings", "audit_locks"]


@dataclass(slots=True)
class LockFindings:
    """Counts: what happened, then what must never happen."""

    grants: int = 0
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the death of a holder to the grant of its key to the next."""

    overlaps: int = 0
    fences_back: int = 0
    inversions: int = 0


@dataclass(slots=True, frozen=True)
class _Request:
    key: str
    who: str
    asked: float
    queued: float = math.inf
    granted: float = math.inf
    gone: float = math.inf
    """When it ended without a grant."""


def audit_locks(records: Sequence[Record]) -> LockFindings:
    """Count what was written down."""
    holds = spans(records, "granted", "done")
    by_key: dict[str, list[Span]] = defaultdict(list)
    for hold in holds:
        by_key[hold.first["key"]].append(hold)
    return LockFindings(
        grants=len(holds),
        takeovers=[seconds for holds in by_key.values() for seconds in taken_over_after(holds)],
        overlaps=sum(map(overlaps, by_key.values())),
        fences_back=sum(map(_fences_back, by_key.values())),
        inversions=_inversions(_requests(records)),
    )


def _fences_back(holds: Iterable[Span]) -> int:
    return sum(after.first["fence"] <= before.first["fence"] for before, after in pairwise(holds))


def _requests(records: Iterable[Record]) -> list[_Request]:
    requests: list[_Request] = []
    current: dict[str, _Request] = {}
    for record in records:
        what, who, at = record["what"], whose(record), ended_at(record)
        request = current.get(who)
        if what == "asked":
            current[who] = _Request(record["key"], who, at)
        elif request is None:
            continue
        elif what == "queued":
            current[who] = replace(request, queued=at)
        elif what == "granted":
            requests.append(replace(current.pop(who), granted=at))
        elif what in ("killed", "stopped", "session lost", "lost", "store away"):
            requests.append(replace(current.pop(who), gone=at))
    return requests


def _inversions(requests: Iterable[_Request]) -> int:
    """Grants to one who asked only after another was known to queue, while that other still waited."""
    by_key: dict[str, list[_Request]] = defaultdict(list)
    for request in requests:
        by_key[request.key].append(request)
    return sum(
        early.queued < late.asked and late.granted < min(early.granted, early.gone)
        for same_key in by_key.values()
        for early in same_key
        for late in same_key
    )
