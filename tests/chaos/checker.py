"""Judges a lock-set run by what independent records say: journals of the processes, the target, the nemesis.

Everything here is a pure function of a `History`. What counts as a violation is as strict as the promises are: an
overlap is excused only by a pause (SIGSTOP) long enough to outlast the lease, and a waiter may be overtaken only if
its own session was lost. A store that lost all its data may grant a key again, for as long as the holder of before
takes to hear of it; fences have to grow all the same. Whatever is excused is counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.chaos.faults import GRACE, SLACK, Fault, Pauses, data_losses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.chaos.records import Written

__all__ = ["Attempt", "Fault", "History", "Verdict", "judge", "read_attempts"]

HEARING = 0.05
"""How long a holder in the same process may take to hear that its lease was released by force."""
SETTLE = 2.0
"""How long after a new session a waiter may take to be back in the queue."""


@dataclass
class Attempt:
    """One request for a key and what became of it."""

    name: str
    who: str
    key: str
    ask: float
    ttl: float
    wait: float
    places: list[tuple[float, str]] = field(default_factory=list)
    """When it was known to stand in the queue, and under which session; each session once."""
    placed: float | None = None
    """When the request was sent that got it the last of these."""
    unheard: list[float] = field(default_factory=list)
    """When requests were sent whose answer never came."""
    owner: str = ""
    fence: int = 0
    enter: float | None = None
    exit: float | None = None
    died: bool = False
    """Whether its process ended inside the body."""
    end: float = float("inf")
    """When it was over, one way or another."""
    kind: str = ""
    refused: float | None = None
    writes: int = 0
    """How many of its writes the target is said to have taken."""

    @property
    def left(self) -> float:
        """When it was inside no longer."""
        return self.end if self.exit is None else self.exit


@dataclass
class History:
    """All that is known about a run."""

    attempts: list[Attempt]
    faults: list[Fault]
    sessions_lost: dict[str, float] = field(default_factory=dict)
    """When a process noticed that this session of its own was lost."""
    written: Sequence[Written] = ()
    """What the target took, per key in that order."""
    stored: Sequence[Written] = ()
    """What fenced transactions committed to the store, per key in order of commit."""
    acknowledged: Sequence[str] = ()
    """Attempts that were told that their fenced transaction had committed."""
    forced: dict[int, float] = field(default_factory=dict)
    """By fence: when a lease was released by force."""
    oddities: list[str] = field(default_factory=list)
    """What should never happen whatever the faults: unexpected errors, crashes of processes."""
    session_ttl: float = 3.0
    recheck_interval: float = 1.0


@dataclass
class Verdict:
    """Counts of what happened, and every violation in words."""

    counts: Counter[str] = field(default_factory=Counter)
    overlaps: list[str] = field(default_factory=list)
    fences_going_back: list[str] = field(default_factory=list)
    stale_writes: list[str] = field(default_factory=list)
    live_refusals: list[str] = field(default_factory=list)
    inversions: list[str] = field(default_factory=list)
    lost_writes: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[str]]:
        return {
            "overlaps": self.overlaps,
            "fences going back": self.fences_going_back,
            "stale writes accepted": self.stale_writes,
            "writes of live holders refused": self.live_refusals,
            "FIFO inversions": self.inversions,
            "acknowledged writes lost": self.lost_writes,
            "oddities": self.oddities,
        }

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())


def judge(history: History) -> Verdict:
    """Check every promise."""
    verdict = Verdict(oddities=list(history.oddities))
    excuses = _Excuses(history)
    places = _Places(history)
    by_key: dict[str, list[Attempt]] = {}
    for attempt in history.attempts:
        by_key.setdefault(attempt.key, []).append(attempt)
    for key in sorted(by_key):
        _check_overlaps(by_key[key], history.forced, excuses, verdict)
        _check_fences(by_key[key], excuses, verdict)
        _check_order(by_key[key], places, verdict)
        _count_takeovers(by_key[key], verdict)
    _check_fences_unique(history.attempts, verdict)
    for kind, rows in (("target", history.written), ("store", history.stored)):
        verdict.counts[f"writes to the {kind}"] = len(rows)
        _check_writes(kind, rows, verdict)
    _check_refusals(history.attempts, excuses, verdict)
    stored = {row.attempt for row in history.stored}
    verdict.lost_writes = [f"{name} was told yes" for name in history.acknowledged if name not in stored]
    taken = Counter(row.attempt for row in history.written)
    verdict.lost_writes += [
        f"{one.name} was told yes {one.writes} times, {taken[one.name]} of these are in the target"
        for one in history.attempts
        if taken[one.name] < one.writes
    ]
    _count_outcomes(history, verdict)
    return verdict


# -- exclusive ---------------------------------------------------------------------------------------------------------


def _check_overlaps(attempts: Iterable[Attempt], forced: dict[int, float], excuses: _Excuses, verdict: Verdict) -> None:
    inside: list[Attempt] = []
    for later in _entered(attempts):
        assert later.enter is not None
        inside = [one for one in inside if one.left > later.enter]
        for earlier in inside:
            # Whoever has the smaller fence should have been gone.
            late, rightful = sorted((earlier, later), key=lambda one: one.fence)
            if pause := excuses.pause(late):
                verdict.counts["paused overlaps"] += 1
                ran_on = round(1000 * (late.left - pause.end))
                verdict.counts["longest run-on after pause, ms"] = max(
                    verdict.counts["longest run-on after pause, ms"], ran_on
                )
            elif late.left <= forced.get(late.fence, 0.0) + HEARING:
                verdict.counts["overlaps after force"] += 1
            elif excuses.forgotten(late):
                verdict.counts["double grants after data loss"] += 1
            else:
                verdict.overlaps.append(f"{_told(late)} was still inside when {_told(rightful)} was, too")
        inside.append(later)


def _check_fences(attempts: Iterable[Attempt], excuses: _Excuses, verdict: Verdict) -> None:
    newest: Attempt | None = None
    for one in _entered(attempts):
        if newest is not None and one.fence <= newest.fence:
            if excuses.pause(one):
                verdict.counts["paused late entries"] += 1
            elif excuses.forgotten(one):
                verdict.counts["late entries after data loss"] += 1
            else:
                verdict.fences_going_back.append(f"{_told(one)} entered after {_told(newest)}")
        if newest is None or one.fence > newest.fence:
            newest = one


def _check_fences_unique(attempts: Iterable[Attempt], verdict: Verdict) -> None:
    seen: dict[int, Attempt] = {}
    for one in _entered(attempts):
        if one.fence in seen:
            verdict.fences_going_back.append(f"{_told(one)} has the fence of {_told(seen[one.fence])}")
        seen[one.fence] = one


def _check_writes(kind: str, rows: Iterable[Written], verdict: Verdict) -> None:
    """Within a key fences never go back, and who was followed by another holder never writes again."""
    last: dict[str, Written] = {}
    gone: set[tuple[str, str]] = set()
    for row in rows:
        before = last.get(row.key)
        if before is not None and before.attempt != row.attempt:
            gone.add((row.key, before.attempt))
        if before is not None and (row.fence < before.fence or (row.key, row.attempt) in gone):
            verdict.stale_writes.append(f"the {kind} took {row} after {before}")
        last[row.key] = row


def _check_refusals(attempts: Iterable[Attempt], excuses: _Excuses, verdict: Verdict) -> None:
    for one in attempts:
        if one.refused is not None:
            verdict.counts["stale writes refused"] += 1
            if not excuses.pause(one) and not excuses.forgotten(one):
                verdict.live_refusals.append(f"{_told(one)} was refused at {one.refused:.3f}")


class _Excuses:
    """Knows why somebody may have been inside, or have written, when the lease was another's."""

    def __init__(self, history: History) -> None:
        self._losses = data_losses(history.faults)
        self._hearing = history.session_ttl + GRACE
        self.pause = Pauses(history.faults, history.session_ttl).excuse

    def forgotten(self, one: Attempt) -> bool:
        """Whether the store lost the lease with all its data, and the holder stopped when it heard of that."""
        return any(one.ask < loss.end and loss.begin < one.left <= loss.end + self._hearing for loss in self._losses)


# -- fair --------------------------------------------------------------------------------------------------------------


def _check_order(attempts: Sequence[Attempt], places: _Places, verdict: Verdict) -> None:
    """Nobody who asked after a live waiter had queued may be granted the key before it."""
    granted = sorted((one for one in attempts if one.enter is not None), key=lambda one: one.enter or 0.0)
    times = [one.enter or 0.0 for one in granted]
    for waiter in attempts:
        if not waiter.places:
            continue
        verdict.counts["waits checked"] += 1
        since = places.sure_since(waiter)
        verdict.counts["waits that lost their place"] += since > waiter.places[0][0]
        until = min(waiter.end if waiter.enter is None else waiter.enter, waiter.ask + waiter.wait)
        for other in granted[bisect_right(times, since) :]:
            assert other.enter is not None
            if other.enter >= until:
                break
            # Fences tell the order of the grants themselves, whoever was slow to hear of theirs.
            overtaken = other.ask > since and (waiter.enter is None or other.fence < waiter.fence)
            if overtaken and not _granted_unheard(waiter, other):
                verdict.inversions.append(
                    f"{_told(waiter)}, in the queue since {since:.3f}, was overtaken by {_told(other)} "
                    f"who asked at {other.ask:.3f}"
                )
                break


class _Places:
    """Knows from when on a waiter is sure to have its place: who loses its session queues anew, at the tail."""

    def __init__(self, history: History) -> None:
        self._lost = history.sessions_lost
        self._need = history.session_ttl + history.recheck_interval + SETTLE
        self._faults = sorted(history.faults, key=lambda fault: fault.begin)
        self._losses = data_losses(self._faults)
        self._long_pauses = [
            fault
            for fault in self._faults
            if fault.kind.endswith("pause") and fault.end - fault.begin >= history.session_ttl * 2 / 3 - SLACK
        ]

    def sure_since(self, waiter: Attempt) -> float:
        since, session = waiter.places[-1]
        if self._lost.get(session, waiter.end) < waiter.end:
            since = max(since, self._settled(self._lost[session]))
        placed = since if waiter.placed is None else waiter.placed
        for loss in self._losses:
            if loss.begin < waiter.end and loss.end > placed:
                since = placed = self._settled(loss.end)
        if not waiter.kind and waiter.enter is None:
            # It died waiting, and could not tell whether a pause before had cost it its session.
            for pause in self._long_pauses:
                if pause.who == waiter.who and pause.begin < waiter.end and pause.end > since:
                    since = self._settled(pause.end)
        return since

    def _settled(self, at: float) -> float:
        """By when a process that lost its session must have begun a new one and asked again: after a quiet spell."""
        finished = at + self._need
        for fault in self._faults:
            if fault.begin < finished and fault.end > at:
                finished = max(finished, fault.end + self._need)
        return finished


def _granted_unheard(waiter: Attempt, other: Attempt) -> bool:
    """Whether the waiter may have had its turn without hearing of it, and its lease run out, before the other's."""
    assert other.enter is not None
    return any(sent + waiter.ttl - SLACK <= other.enter for sent in waiter.unheard)


# -- counting ----------------------------------------------------------------------------------------------------------


def _count_takeovers(attempts: Iterable[Attempt], verdict: Verdict) -> None:
    in_order = sorted((one for one in attempts if one.enter is not None), key=lambda one: one.fence)
    verdict.counts["takeovers after death"] += sum(before.died for before, _ in pairwise(in_order))


def _count_outcomes(history: History, verdict: Verdict) -> None:
    counts = verdict.counts
    counts["attempts"] = len(history.attempts)
    counts["grants"] = sum(one.enter is not None for one in history.attempts)
    counts["hand-offs to waiters"] = sum(one.enter is not None and bool(one.places) for one in history.attempts)
    counts["sessions lost"] = len(history.sessions_lost)
    for one in history.attempts:
        if one.kind:
            counts[f"ended by {one.kind}"] += 1


def _entered(attempts: Iterable[Attempt]) -> Iterator[Attempt]:
    return iter(sorted((one for one in attempts if one.enter is not None), key=lambda one: one.enter or 0.0))


def _told(one: Attempt) -> str:
    span = "never inside" if one.enter is None else f"inside {one.enter:.3f}..{one.left:.3f}"
    return f"{one.name} ({one.key}, fence {one.fence}, ttl {one.ttl:g}, asked {one.ask:.3f}, {span})"


# -- reading -----------------------------------------------------------------------------------------------------------


def read_attempts(events: Iterable[dict[str, Any]], ended: dict[str, float]) -> tuple[list[Attempt], dict[str, Any]]:
    """Put journals together. ``ended`` says when processes were ended that could not write it down themselves."""
    attempts: dict[str, Attempt] = {}
    lost: dict[str, float] = {}
    acknowledged: list[str] = []
    oddities: list[str] = []
    last_seen: dict[str, float] = {}
    for event in events:
        at, who, what = event["t"], event["who"], event["event"]
        last_seen[who] = at
        one = attempts.get(event.get("attempt") or "")
        if what == "ask":
            attempts[event["attempt"]] = Attempt(event["attempt"], who, event["key"], at, event["ttl"], event["wait"])
        elif what == "session_lost":
            lost[event["session"]] = at
        elif what == "work_overran_session":
            ended.setdefault(who, at)
        elif what in ("oops", "background_task_failed"):
            oddities.append(f"{who} at {at:.3f}: {event.get('what') or event.get('error')}\n{event.get('trace', '')}")
        elif one is None:
            continue
        elif what == "queued":
            one.places.append((at, event["session"]))
            one.placed = event["sent"]
        elif what == "unheard":
            one.unheard.append(event["sent"])
        elif what == "enter":
            one.enter, one.owner, one.fence = at, event["owner"], event["fence"]
        elif what == "exit":
            one.exit, one.end, one.writes = at, at, event["writes"]
        elif what == "refused":
            one.refused = at
        elif what == "stored":
            acknowledged.append(one.name)
        elif what == "failed":
            one.end, one.kind = at, event["kind"]
    for one in attempts.values():
        if one.end == float("inf"):
            one.end = max(one.ask, ended.get(one.who, last_seen[one.who]))
            one.died = one.enter is not None
    return list(attempts.values()), {"sessions_lost": lost, "acknowledged": acknowledged, "oddities": oddities}
