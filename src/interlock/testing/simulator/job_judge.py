"""Judges a history of jobs: says which promises were broken, and counts what was excused.

What the store did is followed step by step, and what handlers did is held against it. Code of a process that stood
still past the end of its session may run on for a moment when it wakes: that is counted apart, as the promises say.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.ports.jobs import MOST_CRASHES, Batch, Failing, JobState, Outcome
from interlock.testing.simulator.checker import Verdict
from interlock.testing.simulator.history import Odd
from interlock.testing.simulator.job_events import (
    EnqueueEnded,
    HandlerBegan,
    HandlerEnded,
    HandlerRan,
    HandlerResisted,
    JobCancelled,
    JobRetried,
    JobsClaimed,
    JobsEnqueued,
    JobsHandedBack,
    JobsLeft,
    JobsRescued,
    JobsSettled,
)
from interlock.testing.simulator.lives import GRACE, Sessions, Standstills
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import ClaimedJob, NewJob, Settlement
    from interlock.testing.simulator.history import Event

__all__ = ["check_jobs"]

_ENDS = {
    Outcome.DONE: JobState.DONE,
    Outcome.FAILED: JobState.FAILED,
    Outcome.DISCARDED: JobState.DISCARDED,
    Outcome.CANCELLED: JobState.CANCELLED,
}
_SLACK = 1e-6


@dataclass(slots=True)
class _Claim:
    session: str
    process: str
    fence: int
    turn: int
    at: float
    ended_at: float = math.inf


@dataclass(slots=True)
class _Job:
    new: NewJob
    place: int | None
    """Its place in its lane; None where a late one is allowed to come at any time."""
    claims: list[_Claim] = field(default_factory=list)
    settled: set[tuple[int, Outcome]] = field(default_factory=set)
    ended: JobState | None = None
    crashes: int = 0
    half: int | None = None
    """Of which half of a group of suspects it is."""
    end_asked: bool = False
    running: str = ""
    starts: int = 0

    @property
    def claim(self) -> _Claim | None:
        """The claim that stands."""
        return self.claims[-1] if self.claims and self.claims[-1].ended_at == math.inf else None


def check_jobs(events: Sequence[Event]) -> Verdict:
    """Judge a whole history."""
    return _Check(events).verdict


class _Check:
    def __init__(self, events: Sequence[Event]) -> None:
        self.verdict = Verdict()
        self._stood = Standstills(events)
        self._sessions = Sessions()
        self._jobs: dict[int, _Job] = {}
        self._promised: dict[int, float] = {}
        self._lanes: dict[str, list[_Job]] = {}
        self._starts: dict[str, list[tuple[float, int]]] = {}
        self._resisted: set[tuple[int, int]] = set()
        self._places = 0
        self._now = 0.0
        for event in events:
            self._now = event.at
            self._take(event)

    def _take(self, event: Event) -> None:
        match event:
            case JobsEnqueued():
                for new in event.jobs:
                    self._enqueued(new)
            case EnqueueEnded():
                self._promised.update(dict.fromkeys(event.ids, event.at))
            case JobsClaimed(_, process, session, turn, Batch() as batch):
                self._claimed(process, session, turn, batch)
            case JobsSettled():
                for settlement, accepted in zip(event.settlements, event.settled.accepted, strict=True):
                    self._settled(settlement, accepted)
            case JobsHandedBack():
                self._handed_back(event)
            case JobsRescued():
                self._rescued(event)
            case JobCancelled():
                self._cancelled(event)
            case JobRetried():
                self._retried(event)
            case HandlerBegan():
                self._began(event)
            case HandlerResisted():
                self._resisted.add((event.id, event.fence))
            case HandlerRan() | HandlerEnded():
                self._ran(event)
            case JobsLeft():
                self._left(event)
            case Odd():
                self._broken("odd", f"{event.process}: {event.what}")
            case _:
                if wrong := self._sessions.apply(event):
                    self._broken("session", wrong)

    def _broken(self, promise: str, what: str) -> None:
        self.verdict.violations.append(Violation(self._now, promise, what))

    # -- the store's side --------------------------------------------------------------------------------------------

    def _enqueued(self, new: NewJob) -> None:
        if new.id in self._jobs:
            return
        self._places += 1
        free = bool(new.delay or new.at is not None) or new.failing is Failing.SKIP
        job = self._jobs[new.id] = _Job(new, None if free else self._places)
        if new.lane:
            self._lanes.setdefault(new.lane, []).append(job)

    def _claimed(self, process: str, session: str, turn: int, batch: Batch) -> None:
        if batch.jobs and self._sessions.ends_at(session) <= self._now:
            self._broken("session", "jobs were given to a session that had ended")
        given: set[int] = set()
        lanes: dict[str, int] = {}
        for got in batch.jobs:
            job = self._jobs.get(got.id)
            if job is None or job.ended:
                self._broken("exclusive", f"job {got.id} was given that is not there, or has ended")
                continue
            if job.claim is not None:
                self._broken("exclusive", f"job {got.id} was given while {job.claim.session} had it")
            if job.claims and got.fence <= job.claims[-1].fence:
                self._broken("fence", f"job {got.id} got fence {got.fence} after {job.claims[-1].fence}")
            self._check_lane(job, lanes, given)
            job.claims.append(_Claim(session, process, got.fence, turn, self._now))
            self._check_limits(job, got)
            given.add(got.id)
            if got.lane:
                lanes[got.lane] = got.id
            if got.half != job.half:
                self._broken("suspects", f"job {got.id} was given as of half {got.half}, but is of {job.half}")
        halves = {job.half for job in self._held(session) if job.half is not None}
        if len(halves) > 1:
            self._broken("suspects", f"{session} has suspects of several halves: {sorted(halves)}")

    def _held(self, session: str) -> list[_Job]:
        """What a session has claimed."""
        return [job for job in self._jobs.values() if job.claim is not None and job.claim.session == session]

    def _check_lane(self, job: _Job, lanes: dict[str, int], given: set[int]) -> None:
        for other in self._lanes.get(job.new.lane, ()):
            if other is job or other.ended:
                continue
            if other.claim is not None and other.new.id not in given:
                self._broken("order", f"job {job.new.id} was given while job {other.new.id} of its lane was at work")
            before = job.place is not None and other.place is not None and other.place < job.place
            if before and other.new.id not in given:
                self._broken("order", f"job {job.new.id} was given before job {other.new.id} of its lane")

    def _check_limits(self, job: _Job, got: ClaimedJob) -> None:
        for use in job.new.uses:
            if use.per:
                times = self._starts.setdefault(use.key, [])
                times.append((self._now, got.id))
                recent = [at for at, _ in times if at > self._now - use.per + _SLACK]
                if len(recent) > use.most:
                    self._broken("limits", f"{len(recent)} starts within {use.per} s of {use.key}")
            else:
                held = [
                    one
                    for one in self._jobs.values()
                    if one.claim is not None and any(other.key == use.key for other in one.new.uses)
                ]
                if len(held) > use.most:
                    self._broken("limits", f"{len(held)} have slots of {use.key}, which has {use.most}")

    def _settled(self, settlement: Settlement, accepted: bool) -> None:
        job = self._jobs.get(settlement.id)
        claim = job.claim if job is not None else None
        if job is None:
            self._broken("acknowledged", f"job {settlement.id} was settled that nobody knows")
            return
        mine = claim is not None and claim.fence == settlement.fence
        said = (settlement.fence, settlement.outcome)
        if accepted and not mine and said not in job.settled and settlement.outcome is not Outcome.RETURNED:
            self._broken("acknowledged", f"{settlement.outcome} of job {settlement.id} counted without its claim")
        if not accepted and mine:
            self._broken("acknowledged", f"{settlement.outcome} of job {settlement.id} was refused though it was due")
        if not accepted and not mine:
            self.verdict.outcomes["refused"] += 1
        if not accepted or claim is None or not mine:
            return
        claim.ended_at = self._now
        job.settled.add(said)
        self.verdict.outcomes[settlement.outcome] += 1
        if settlement.outcome is Outcome.RETURNED:
            self._forget_starts(job, claim)
        elif settlement.outcome is not Outcome.UNREADABLE:
            job.half = None
        end = _ENDS.get(settlement.outcome)
        if job.end_asked and settlement.outcome is not Outcome.DONE:
            end = JobState.CANCELLED
        if end is not None:
            job.ended = end

    def _forget_starts(self, job: _Job, claim: _Claim) -> None:
        for use in job.new.uses:
            if use.per and (claim.at, job.new.id) in self._starts.get(use.key, ()):
                self._starts[use.key].remove((claim.at, job.new.id))

    def _handed_back(self, event: JobsHandedBack) -> None:
        for job in self._jobs.values():
            claim = job.claim
            if claim is None or claim.session != event.session or (event.turn or math.inf) < claim.turn:
                continue
            if job.new.id not in event.but:
                claim.ended_at = self._now
                self._forget_starts(job, claim)
                if job.end_asked:
                    job.ended = JobState.CANCELLED
                if job.running == claim.process and not self._excused(claim, self._now):
                    self._broken("live", f"job {job.new.id} was handed back while it ran")

    def _rescued(self, event: JobsRescued) -> None:
        sessions = {one.session for one in event.rescued}
        suspects = {session: [job for job in self._held(session) if job.half is not None] for session in sessions}
        made = Counter(one.session for one in event.rescued if one.half is not None)
        for one in event.rescued:
            job = self._jobs[one.id]
            claim = job.claim
            if claim is None or claim.session != one.session:
                self._broken("live", f"job {one.id} was rescued that {one.session} did not have")
                continue
            if self._sessions.ends_at(claim.session) > self._now:
                self._broken("live", f"job {one.id} was taken from a session that lives")
            claim.ended_at = self._now
            others = [other for other in suspects[one.session] if other is not job]
            fresh = made[one.session] - (one.half is not None) if job.half is None else 0
            if one.crashes != job.crashes and (others or fresh):
                self._broken("suspects", f"a crash counted for job {one.id}, which was not the only suspect")
            job.crashes, job.half = one.crashes, one.half
            if one.quarantined and job.crashes < MOST_CRASHES:
                self._broken("quarantine", f"job {one.id} was quarantined after {job.crashes} crashes")
            if one.quarantined:
                job.ended = JobState.QUARANTINED
            elif job.end_asked:
                job.ended = JobState.CANCELLED
            self.verdict.outcomes["rescued"] += 1

    def _cancelled(self, event: JobCancelled) -> None:
        job = self._jobs.get(event.id)
        if job is not None and not job.ended:
            if event.state is JobState.CANCELLED:
                job.ended = JobState.CANCELLED
            elif event.state is JobState.RUNNING:
                job.end_asked = True

    def _retried(self, event: JobRetried) -> None:
        job = self._jobs.get(event.id)
        if job is not None and event.state is not None and not event.state.final:
            if job.ended:
                job.place = None  # it takes a new place, at the end of the line
                job.crashes, job.half = 0, None
            job.ended, job.end_asked = None, job.end_asked and not job.ended

    # -- the handlers' side ------------------------------------------------------------------------------------------

    def _began(self, event: HandlerBegan) -> None:
        job = self._jobs.get(event.id)
        claim = next((claim for claim in job.claims if claim.fence == event.fence), None) if job is not None else None
        if job is None or claim is None or claim.process != event.process:
            self._broken("exclusive", f"job {event.id} ran without a claim")
            return
        job.starts += 1
        if job.starts > 1:
            self.verdict.outcomes["started again"] += 1
        if self._over(claim):
            self.verdict.excused["began late"] += 1
            return
        if job.running and not self._excused_run(job):
            self._broken("exclusive", f"job {event.id} began while it ran in {job.running}")
        job.running = event.process
        for other in self._lanes.get(job.new.lane, ()):
            if other is job or other.ended:
                continue
            if other.running and not self._excused_run(other):
                self._broken("order", f"job {event.id} began while job {other.new.id} of its lane ran")
            if job.place is not None and other.place is not None and other.place < job.place:
                self._broken("order", f"job {event.id} began before job {other.new.id} of its lane had ended")

    def _ran(self, event: HandlerRan | HandlerEnded) -> None:
        job = self._jobs[event.id]
        claim = next((claim for claim in job.claims if claim.fence == event.fence), None)
        if claim is None:
            return  # said when it began
        if (event.id, event.fence) not in self._resisted:
            self._over(claim)
        if isinstance(event, HandlerEnded) and job.running == event.process and job.claims[-1] is claim:
            job.running = ""

    def _over(self, claim: _Claim) -> bool:
        """Whether code runs under a claim that has ended; says so if that is not to be excused."""
        end = min(claim.ended_at, self._sessions.ends_at(claim.session))
        if self._now <= end + GRACE:
            return False
        if self._excused(claim, self._now):
            self.verdict.excused["ran on"] += 1
        else:
            self._broken("live", f"a handler in {claim.process} ran on {self._now - end:.3f} s after its claim")
        return True

    def _excused(self, claim: _Claim, now: float) -> bool:
        end = min(claim.ended_at, self._sessions.ends_at(claim.session))
        crashed = self._stood.crashed_at(claim.process) <= now
        return crashed or self._stood.slept_through(claim.process, min(end, now), now)

    def _excused_run(self, job: _Job) -> bool:
        """Whether what seems to run has really ended, or may be ignored: its process was killed, or stood still."""
        claim = next((one for one in reversed(job.claims) if one.process == job.running), None)
        return claim is None or (job.new.id, claim.fence) in self._resisted or self._excused(claim, self._now)

    def _left(self, event: JobsLeft) -> None:
        views = {view.id: view for view in event.views}
        for number in self._promised:
            if number not in views:
                self._broken("durable", f"job {number} was accepted and is gone")
        for number, job in self._jobs.items():
            view = views.get(number)
            if view is None:
                self._broken("durable", f"job {number} was stored and is gone")
            elif not view.state.final:
                self._broken("durable", f"job {number} is still {view.state} after all was well for long")
            elif view.state is not job.ended:
                self._broken("acknowledged", f"job {number} is {view.state} and should be {job.ended}")
        for number in views.keys() - self._jobs.keys():
            self._broken("once", f"job {number} came from nowhere")
