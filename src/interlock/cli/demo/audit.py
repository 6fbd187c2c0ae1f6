"""What really happened, from what was written down alone: neither the store nor the screen is asked.

A hold lasts from the moment a worker knew of its lease to the moment it stopped working under it, was killed, or was
frozen. Anything that a promise forbids is counted, whoever may be at fault.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from interlock.cli.demo.records import Reader
from interlock.cli.demo.target import LEDGER
from interlock.cli.demo.worker import LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from interlock.cli.demo.records import Record

__all__ = ["Findings", "audit", "read_records"]


@dataclass(slots=True)
class Findings:
    """The audit's counts. The first group is what happened, the second what must never happen."""

    grants: int = 0
    writes: int = 0
    refused: int = 0
    kills: int = 0
    freezes: int = 0
    takeovers: list[float] = field(default_factory=list)
    """Seconds from the death of a holder to the grant of its key to the next."""

    overlaps: int = 0
    fences_back: int = 0
    stale_accepted: int = 0
    inversions: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not (self.overlaps or self.fences_back or self.stale_accepted or self.inversions)


@dataclass(slots=True)
class _Hold:
    key: str
    who: str
    fence: int
    begin: float
    end: float = math.inf
    ended_by: str = ""


@dataclass(slots=True, frozen=True)
class _Request:
    key: str
    who: str
    asked: float
    queued: float = math.inf
    granted: float = math.inf
    gone: float = math.inf
    """When it ended without a grant."""


def audit(directory: Path) -> Findings:
    """Count everything that was written down in a directory."""
    records = read_records(directory)
    ledger = list(Reader(directory / LEDGER).new())
    holds = _holds(records)
    by_key: dict[str, list[_Hold]] = defaultdict(list)
    for hold in holds:
        by_key[hold.key].append(hold)
    return Findings(
        grants=len(holds),
        writes=sum(write["accepted"] for write in ledger),
        refused=sum(not write["accepted"] for write in ledger),
        kills=sum(record["what"] == "killed" for record in records),
        freezes=sum(record["what"] == "frozen" for record in records),
        takeovers=[seconds for holds in by_key.values() for seconds in _takeovers(holds)],
        overlaps=sum(_overlaps(holds) for holds in by_key.values()),
        fences_back=sum(_fences_back(holds) for holds in by_key.values()),
        stale_accepted=_stale_accepted(ledger),
        inversions=_inversions(_requests(records)),
    )


def read_records(directory: Path) -> list[Record]:
    """The workers' and the director's log in the order of time."""
    return sorted(Reader(directory / LOG).new(), key=lambda record: record["at"])


def _holds(records: Iterable[Record]) -> list[_Hold]:
    """All holds, in the order in which they began."""
    holds: list[_Hold] = []
    open_holds: dict[str, _Hold] = {}
    for record in records:
        who = _whose(record)
        if record["what"] == "granted":
            open_holds[who] = _Hold(record["key"], who, record["fence"], record["at"])
            holds.append(open_holds[who])
        elif record["what"] in ("done", "killed", "frozen"):
            hold = open_holds.pop(who, None)
            if hold is not None:
                hold.end, hold.ended_by = _end(record), record["what"]
    return holds


def _end(record: Record) -> float:
    """When it was so: a kill counts from its signal, though it is written down when the process is gone."""
    return float(record["sent"] if "sent" in record else record["at"])


def _whose(record: Record) -> str:
    """Whom it is about: what the director writes down is about a worker."""
    return str(record["victim"] if "victim" in record else record["who"])


def _takeovers(holds: Sequence[_Hold]) -> list[float]:
    return [after.begin - before.end for before, after in pairwise(holds) if before.ended_by in ("killed", "frozen")]


def _overlaps(holds: Sequence[_Hold]) -> int:
    count = 0
    latest_end = -math.inf
    for hold in holds:
        count += hold.begin < latest_end
        latest_end = max(latest_end, hold.end)
    return count


def _fences_back(holds: Sequence[_Hold]) -> int:
    return sum(after.fence <= before.fence for before, after in pairwise(holds))


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


def _requests(records: Iterable[Record]) -> list[_Request]:
    requests: list[_Request] = []
    current: dict[str, _Request] = {}
    for record in records:
        what, who, at = record["what"], _whose(record), _end(record)
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
