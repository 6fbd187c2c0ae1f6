"""Judges a claims run by the journals of the processes and by what the store holds in the end.

Everything here is a pure function of a `ClaimHistory`. Work on a key overlaps other work on it only if its process was
paused past its lease; what was acknowledged as done is the last that ever happens to a key; and every outcome that
was refused must have been refused because somebody else had the claim by then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.chaos.faults import Fault, Pauses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Answer", "ClaimHistory", "ClaimVerdict", "Final", "Work", "judge_claims", "read_claims"]


@dataclass
class Work:
    """One claim that was new, and what became of it."""

    name: str
    who: str
    key: str
    ask: float
    begin: float
    attempt: int
    fence: int
    ttl: float
    end: float | None = None
    died: float | None = None
    """When its process ended before its work did."""
    finish: float | None = None
    how: str = ""
    """What it was to be finished as."""
    finished: float | None = None
    refused: float | None = None

    @property
    def left(self) -> float:
        """When the work stopped."""
        return self.end if self.end is not None else self.died if self.died is not None else float("inf")


class Answer(NamedTuple):
    """What a claimant heard who was not the one."""

    asked: float
    at: float
    state: str


class Final(NamedTuple):
    """How a key stands in the store in the end."""

    state: str
    attempt: int
    fence: int
    result: str | None


@dataclass
class ClaimHistory:
    """All that is known about a run."""

    works: list[Work]
    keys: Sequence[str]
    final: Mapping[str, Final]
    faults: list[Fault] = field(default_factory=list)
    known: dict[str, list[Answer]] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    """By key: how many claimants were answered."""
    claimants: int = 0
    """By how many each key was to be claimed."""
    oddities: list[str] = field(default_factory=list)
    session_ttl: float = 3.0


@dataclass
class ClaimVerdict:
    """Counts of what happened, and every violation in words."""

    counts: Counter[str] = field(default_factory=Counter)
    overlaps: list[str] = field(default_factory=list)
    attempts_twice: list[str] = field(default_factory=list)
    fences_going_back: list[str] = field(default_factory=list)
    done_again: list[str] = field(default_factory=list)
    done_forgotten: list[str] = field(default_factory=list)
    done_by_nobody: list[str] = field(default_factory=list)
    never_done: list[str] = field(default_factory=list)
    late_settled: list[str] = field(default_factory=list)
    live_refused: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    @property
    def violations(self) -> dict[str, list[str]]:
        return {
            "new to two at once": self.overlaps,
            "one attempt given twice": self.attempts_twice,
            "fences going back": self.fences_going_back,
            "done, and new again": self.done_again,
            "done, and then not done": self.done_forgotten,
            "done by nobody": self.done_by_nobody,
            "failed or left, and never done": self.never_done,
            "finished after a takeover": self.late_settled,
            "finishing refused to the holder": self.live_refused,
            "claimants not answered": self.unanswered,
            "oddities": self.oddities,
        }

    @property
    def clean(self) -> bool:
        return not any(self.violations.values())


def judge_claims(history: ClaimHistory) -> ClaimVerdict:
    """Check every promise."""
    verdict = ClaimVerdict(oddities=list(history.oddities))
    pauses = Pauses(history.faults, history.session_ttl)
    by_key: dict[str, list[Work]] = {key: [] for key in history.keys}
    for work in history.works:
        by_key.setdefault(work.key, []).append(work)
    for key, works in by_key.items():
        final = history.final.get(key)
        _check_overlaps(works, pauses, verdict)
        _check_attempts(works, pauses, verdict)
        _check_settlements(works, final, verdict)
        _check_done(key, works, final, history.known.get(key, ()), verdict)
        if history.answered[key] < history.claimants and key.startswith("k0"):
            verdict.unanswered.append(f"{key} was claimed by {history.answered[key]}, not by {history.claimants}")
    _check_fences_unique(history.works, verdict)
    _count(history, verdict)
    return verdict


def _check_overlaps(works: Iterable[Work], pauses: Pauses, verdict: ClaimVerdict) -> None:
    at_work: list[Work] = []
    for later in sorted(works, key=lambda work: work.begin):
        at_work = [work for work in at_work if work.left > later.begin]
        for earlier in at_work:
            late, rightful = sorted((earlier, later), key=lambda work: work.fence)
            pause = pauses.excuse(late)
            if pause is not None and pause.begin < later.begin:
                verdict.counts["paused overlaps"] += 1
                ran_on = round(1000 * (late.left - pause.end))
                longest = verdict.counts["longest run-on after pause, ms"]
                verdict.counts["longest run-on after pause, ms"] = max(longest, ran_on)
            else:
                verdict.overlaps.append(f"{_told(late)} was still at work when {_told(rightful)} was, too")
        at_work.append(later)


def _check_attempts(works: Iterable[Work], pauses: Pauses, verdict: ClaimVerdict) -> None:
    """Attempts and fences grow together, and in the order in which work began."""
    newest: Work | None = None
    seen: dict[int, Work] = {}
    for work in sorted(works, key=lambda work: work.begin):
        if work.attempt in seen:
            verdict.attempts_twice.append(f"{_told(work)} has the attempt of {_told(seen[work.attempt])}")
        seen[work.attempt] = work
        if newest is not None and (work.fence <= newest.fence or work.attempt <= newest.attempt):
            if pauses.excuse(work) and (work.fence < newest.fence) == (work.attempt < newest.attempt):
                verdict.counts["paused late beginnings"] += 1
            elif work.attempt != newest.attempt or work.fence <= newest.fence:
                verdict.fences_going_back.append(f"{_told(work)} began after {_told(newest)}")
        if newest is None or work.fence > newest.fence:
            newest = work


def _check_fences_unique(works: Iterable[Work], verdict: ClaimVerdict) -> None:
    seen: dict[int, Work] = {}
    for work in works:
        if work.fence in seen:
            verdict.fences_going_back.append(f"{_told(work)} has the fence of {_told(seen[work.fence])}")
        seen[work.fence] = work


def _check_settlements(works: Sequence[Work], final: Final | None, verdict: ClaimVerdict) -> None:
    newest = max([work.attempt for work in works] + ([final.attempt] if final else []), default=0)
    for work in works:
        if work.refused is not None:
            verdict.counts["finishing refused"] += 1
            if newest <= work.attempt:
                verdict.live_refused.append(f"{_told(work)} was refused, and nobody ever had it after")
        if work.finished is not None and work.finish is not None:
            for other in works:
                if other.attempt > work.attempt and other.begin < work.finish:
                    verdict.late_settled.append(f"{_told(work)} finished it while it was {_told(other)}'s")


def _check_done(
    key: str, works: Sequence[Work], final: Final | None, known: Iterable[Answer], verdict: ClaimVerdict
) -> None:
    done = sorted((work for work in works if work.finished and work.how == "done"), key=lambda work: work.attempt)
    for work in works:
        if done and work.attempt > done[0].attempt:
            verdict.done_again.append(f"{_told(work)} after {_told(done[0])} was told that it is done")
    maybe_done_at = min((work.finish for work in works if work.finish and work.how == "done"), default=float("inf"))
    surely_done_at = min((work.finished or 0.0 for work in done), default=float("inf"))
    for answer in known:
        if answer.state == "done" and answer.at < maybe_done_at:
            verdict.done_by_nobody.append(f"{key} was said to be done at {answer.at:.3f}")
        if answer.state != "done" and answer.asked > surely_done_at:
            verdict.done_forgotten.append(f"{key}, done at {surely_done_at:.3f}, was {answer.state} at {answer.at:.3f}")
    if final is None or final.state != "done":
        missing = "done_forgotten" if done else "never_done"
        getattr(verdict, missing).append(f"{key} is {final and final.state} in the end")
        return
    doer = next((work for work in works if work.attempt == final.attempt), None)
    if doer is None or doer.how != "done" or doer.name != final.result or doer.fence != final.fence:
        verdict.done_by_nobody.append(f"{key} is done with {final}, by {doer and _told(doer)}")
    elif done and done[0] is not doer:
        verdict.done_again.append(f"{key} is done by {_told(doer)} in the end, and by {_told(done[0])}")


def _count(history: ClaimHistory, verdict: ClaimVerdict) -> None:
    counts = verdict.counts
    counts["keys"] = len(history.keys)
    counts["claims answered"] = sum(history.answered.values())
    counts["new"] = len(history.works)
    for answers in history.known.values():
        counts.update(answer.state for answer in answers)
    counts["fewest claimants of a key"] = min(
        (history.answered[key] for key in history.keys if key.startswith("k0")), default=0
    )
    counts["most attempts of a key"] = max((final.attempt for final in history.final.values()), default=0)
    newest = Counter[str]()
    for work in history.works:
        newest[work.key] = max(newest[work.key], work.attempt)
        if work.finished is not None:
            counts[f"finished as {work.how}"] += 1
    counts["taken over from the dead"] = sum(
        work.died is not None and newest[work.key] > work.attempt for work in history.works
    )


def _told(work: Work) -> str:
    span = f"{work.begin:.3f}..{work.left:.3f}"
    return f"{work.name} ({work.key}, attempt {work.attempt}, fence {work.fence}, lease {work.ttl:g}, at work {span})"


# -- reading -----------------------------------------------------------------------------------------------------------


def read_claims(events: Iterable[dict[str, Any]], ended: Mapping[str, float]) -> dict[str, Any]:
    """Put journals together. ``ended`` says when processes were ended that could not write it down themselves."""
    works: dict[str, Work] = {}
    known: dict[str, list[Answer]] = {}
    answered: Counter[str] = Counter()
    oddities: list[str] = []
    stopped: dict[str, float] = dict(ended)
    last_seen: dict[str, float] = {}
    for event in events:
        at, who, what = event["t"], event["who"], event["event"]
        last_seen[who] = at
        if what == "known":
            known.setdefault(event["key"], []).append(Answer(event["asked"], at, event["state"]))
            answered[event["key"]] += event["c"] >= 0
        elif what == "begin":
            about = (event["attempt"], event["fence"], event["lease"])
            works[event["work"]] = Work(event["work"], who, event["key"], event["asked"], at, *about)
            answered[event["key"]] += event["c"] >= 0
        elif what in ("oops", "background_task_failed"):
            oddities.append(f"{who} at {at:.3f}: {event.get('what') or event.get('error')}\n{event.get('trace', '')}")
        elif what == "work_overran_session":
            stopped.setdefault(who, at)
        elif (work := works.get(event.get("work", ""))) is None:
            continue
        elif what == "end":
            work.end = at
        elif what == "finish":
            work.finish, work.how = at, event["how"]
        elif what == "finished":
            work.finished = at
        elif what == "refused":
            work.refused = at if work.finish is not None else None
    for work in works.values():
        if work.end is None:
            work.died = stopped.get(work.who, last_seen[work.who])
    return {"works": list(works.values()), "known": known, "answered": answered, "oddities": oddities}
