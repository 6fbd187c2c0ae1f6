"""Check a history of claims, limits and cursors: report broken promises, and count the overlaps that are allowed.

The models check the store's side; this module checks what processes saw and did against them. Code of a process that
was suspended past the end of its lease, or whose claim was forgotten by an operator, may run on for a moment. Such
overlaps are counted separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.ports.limits import TURN_SECONDS
from interlock.testing.simulator.checker import Bounds, Verdict
from interlock.testing.simulator.claim_model import Attempt, ClaimModel
from interlock.testing.simulator.cursor_model import CursorModel
from interlock.testing.simulator.events import (
    CallBegan,
    CallEnded,
    CallNamed,
    CallOver,
    LimitAsked,
    NeverClaimed,
    SettleEnded,
    WorkBegan,
    WorkRan,
)
from interlock.testing.simulator.history import Odd
from interlock.testing.simulator.limit_model import LimitModel
from interlock.testing.simulator.lives import Sessions, Standstills
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.testing.simulator.history import Event
    from interlock.testing.simulator.limit_state import Stay
    from interlock.testing.simulator.lives import Tenure

__all__ = ["check_concepts"]

_OUTCOMES = frozenset(
    {"new", "in progress", "done", "failed", "reserved", "started", "not yet", "timeout", "unavailable", "cancelled"}
    | {"lost", "closed"}
)


@dataclass(slots=True)
class _Call:
    number: int
    process: str
    kind: str
    wait: float | None
    began_at: float
    owners: list[str] = field(default_factory=list)
    ended_at: float = math.inf
    over_at: float = math.inf


@dataclass(slots=True)
class _Work:
    process: str
    guarded: bool
    began_at: float
    tenure: Tenure | None
    ran_at: float


def check_concepts(events: Sequence[Event], bounds: Bounds) -> Verdict:
    """Check a whole history."""
    return _Check(events, bounds).verdict


class _Check:
    def __init__(self, events: Sequence[Event], bounds: Bounds) -> None:
        self.verdict = Verdict()
        self._bounds = bounds
        self._stood = Standstills(events)
        self._sessions = Sessions()
        self._claims = ClaimModel(self._sessions)
        self._limits = LimitModel(self._sessions)
        self._cursors = CursorModel()
        self._calls: dict[int, _Call] = {}
        self._calls_of: dict[str, list[_Call]] = {}
        self._works: dict[tuple[int, str], _Work] = {}
        self._end = events[-1].at if events else 0.0
        for event in events:
            if wrong := self._sessions.apply(event):
                self._broken(event.at, "sessions", wrong)
            ready = self._ready_since(event)
            for model in (self._claims, self._limits, self._cursors):
                model.apply(event)
            self._follow(event, ready)
        self._claims.finish(self._end)
        self._limits.finish(self._end)
        for found in (self._claims.violations, self._limits.violations, self._cursors.violations):
            self.verdict.violations += found
        self._check_claims_apart()
        self._check_slots()
        self._check_calls()
        self._check_left_behind()
        self._check_order()
        self.verdict.violations.sort(key=lambda violation: violation.at)

    def _follow(self, event: Event, ready: float) -> None:
        match event:
            case CallBegan():
                self._calls[event.call] = _Call(event.call, event.process, event.kind, event.wait, event.at)
            case CallNamed():
                call = self._calls[event.call]
                call.owners.append(event.owner)
                self._calls_of.setdefault(event.owner, []).append(call)
            case LimitAsked(_, _, plan, _):
                self._check_wake(plan.owner, ready, event.at)
            case CallEnded():
                call = self._calls[event.call]
                call.ended_at = event.at
                self.verdict.outcomes[event.outcome] += 1
                for owner in call.owners[-1:]:
                    self._check_wake(owner, ready, event.at)
                if event.outcome not in _OUTCOMES:
                    self._broken(event.at, "errors", f"a {call.kind} ended with {event.outcome}")
            case CallOver():
                self._calls[event.call].over_at = event.at
            case WorkBegan():
                tenure = self._check_live(event)
                work = _Work(event.process, event.guarded, event.at, tenure, event.at)
                self._works[event.call, event.owner] = work
            case WorkRan():
                self._check_live(event)
                self._works[event.call, event.owner].ran_at = event.at
            case SettleEnded():
                self._check_settled(event)
            case NeverClaimed():
                self._broken(event.at, "claimable", f"{event.key} stayed {event.state} after everything had ended")
            case Odd():
                self._broken(event.at, "odd", f"{event.process}: {event.what}")
            case _:
                pass

    # -- code runs only under what is live -------------------------------------------------------------------------

    def _tenure(self, owner: str) -> Tenure | None:
        return self._claims.of(owner) or self._limits.state.of(owner)

    def _check_live(self, event: WorkBegan | WorkRan) -> Tenure | None:
        attempt = self._claims.of(event.owner)
        if attempt is not None and self._claims.live(attempt, event.at):
            return attempt
        if self._limits.state.at_work(event.owner, event.at):
            return self._limits.state.of(event.owner)
        self._limits.state.advance(event.at)  # so that its end is recorded
        tenure = self._tenure(event.owner)
        if tenure is None or (attempt is None and self._limits.state.find(event.owner)):
            self._broken(event.at, "exclusive", "code ran without a grant, or before its start")
        elif not self._excused(tenure, event.process, event.at):
            late = event.at - tenure.ended_at
            self._broken(event.at, "exclusive", f"{event.process} worked under {tenure.key} {late:.3f} s after its end")
        return tenure

    def _excused(self, tenure: Tenure, process: str, at: float) -> bool:
        """Whether code may still run although its lease has ended: suspended, or not yet notified."""
        if self._stood.slept_through(process, tenure.ended_at, at):
            self.verdict.excused["paused"] += 1
            return True
        paused = self._stood.paused(process, tenure.ended_at, at)
        if tenure.forced and at <= tenure.ended_at + tenure.ttl + self._bounds.loss + paused:
            self.verdict.excused["forgotten"] += 1
            return True
        return False

    def _check_claims_apart(self) -> None:
        """Check that two holders never work on the same claim at once."""
        by_key: dict[str, list[_Work]] = {}
        for work in self._works.values():
            if work.guarded and isinstance(work.tenure, Attempt):
                by_key.setdefault(work.tenure.key, []).append(work)
        for key, works in by_key.items():
            self._check_at_once(key, works, 1, "exclusive")

    def _check_slots(self) -> None:
        """Check that no more code runs at once under slots than there are, regardless of the reservations."""
        by_key: dict[str, tuple[list[_Work], list[int]]] = {}
        for work in self._works.values():
            stay = self._limits.state.of(work.tenure.owner) if work.tenure is not None else None
            for use in stay.uses if stay is not None and work.guarded else ():
                if not use.per:
                    works, limit = by_key.setdefault(use.key, ([], []))
                    works.append(work)
                    limit.append(use.max_count)
        for key, (works, figures) in by_key.items():
            if len(set(figures)) == 1:  # if they differ, the model decides which figure applied when
                self._check_at_once(key, works, figures[0], "slots")

    def _check_at_once(self, key: str, works: list[_Work], limit: int, promise: str) -> None:
        works.sort(key=lambda work: work.began_at)
        for index, latest in enumerate(works):
            others = [work for work in works[:index] if work.ran_at > latest.began_at]
            at_once = [work for work in (*others, latest) if not self._overran(work, latest.began_at)]
            if len(at_once) > limit:
                who = " and ".join(work.process for work in at_once)
                self._broken(latest.began_at, promise, f"code of {who} ran under {key} at once, {limit} may")

    def _overran(self, work: _Work, at: float) -> bool:
        tenure = work.tenure
        return tenure is not None and tenure.ended_at <= at and self._excused(tenure, work.process, at)

    # -- answers to done and fail ----------------------------------------------------------------------------------

    def _check_settled(self, event: SettleEnded) -> None:
        attempt = self._claims.of(event.owner)
        finished = (event.owner, event.state) in self._claims.finished
        self.verdict.outcomes[f"{event.state}: {event.outcome}"] += 1
        if event.outcome == "finished" and not finished:
            self._broken(
                event.at, "finishes", f"r{event.call} was answered that its claim is {event.state}, which is wrong"
            )
        if event.outcome == "lost" and attempt is not None and attempt.state == event.state and not attempt.gone:
            self._broken(
                event.at,
                "finishes",
                f"r{event.call} was answered as lost although it finished as {event.state}",
            )

    # -- calls end, and leave nothing behind -----------------------------------------------------------------------

    def _check_calls(self) -> None:
        for call in self._calls.values():
            if call.wait is None:
                continue
            until = min(call.ended_at, self._stood.crashed_at(call.process), self._end)
            latest = call.began_at + call.wait + self._bounds.answer
            if until > latest + self._stood.paused(call.process, call.began_at, until):
                self._broken(
                    latest,
                    "bounded",
                    f"{call.process}'s {call.kind} r{call.number} with wait {call.wait:g} s had no answer after "
                    f"{until - call.began_at:.3f} s",
                )

    def _check_left_behind(self) -> None:
        for tenure in (*self._claims.attempts, *self._limits.state.stays):
            calls = self._calls_of.get(tenure.owner)
            if not calls or self._stood.crashed_at(tenure.process) < math.inf:
                continue
            over_at = calls[-1].over_at
            until = min(tenure.ended_at, self._end)
            latest = max(over_at, tenure.began_at) + self._bounds.tidy
            if self._bounds.stormy and isinstance(tenure, Attempt):
                latest += tenure.ttl  # a lease without an object in the process is not renewed, and expires
            if until > latest + self._stood.paused(tenure.process, over_at, until):
                self._broken(
                    latest,
                    "leaves nothing",
                    f"{tenure.key} was kept for {tenure.process}'s {calls[-1].kind} r{calls[-1].number} for "
                    f"{until - over_at:.3f} s after it had finished with it",
                )

    # -- turns -----------------------------------------------------------------------------------------------------

    def _ready_since(self, event: Event) -> float:
        """Since when a reservation that asks now, or gives up now, could have started."""
        if isinstance(event, LimitAsked):
            owner = event.plan.owner
        elif isinstance(event, CallEnded) and self._calls[event.call].owners:
            owner = self._calls[event.call].owners[-1]
        else:
            return math.inf
        stay = self._limits.state.find(owner)
        return math.inf if stay is None or stay.started_at is not None else stay.ready_since()

    def _check_wake(self, owner: str, ready: float, at: float) -> None:
        """Check that a waiter asks soon after its turn has come."""
        stay = self._limits.state.of(owner)
        calls = [call for call in self._calls_of.get(owner, ()) if call.kind != "reserve"]
        if stay is None or not calls or ready == math.inf:
            return
        since = max(ready, calls[-1].began_at)
        took = min(at, calls[-1].ended_at, self._stood.crashed_at(stay.process)) - since
        took -= self._stood.paused(stay.process, since, at)
        if took > self._bounds.handover:
            self._broken(
                since, "wakes", f"{stay.process} had its turn under {stay.key} for {took:.3f} s without asking"
            )

    def _check_order(self) -> None:
        for at, stay, by, key in self._limits.passed_over:
            if not self._waits(stay, at) or self._stood.paused(stay.process, at - 2 * TURN_SECONDS, at):
                continue
            self._broken(at, "fair", f"{stay.process} was overtaken by {by.process} for {key} although it was live")

    def _waits(self, stay: Stay, at: float) -> bool:
        """Whether a client waits for this reservation's turn at a time."""
        calls = [call for call in self._calls_of.get(stay.owner, ()) if call.kind != "reserve"]
        waiting = any(call.began_at <= at <= call.ended_at for call in calls)
        return waiting and self._stood.crashed_at(stay.process) > at

    def _broken(self, at: float, promise: str, what: str) -> None:
        self.verdict.violations.append(Violation(at, promise, what))
