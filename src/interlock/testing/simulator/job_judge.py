"""Judges a history of jobs: says which promises were broken, and counts what was excused.

What the store did is followed step by step, and what handlers did is held against it. Code of a process that stood
still past the end of its session may run on for a moment when it wakes: that is counted apart, as the promises say.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.ports.job_hooks import decode_hooks
from interlock.ports.jobs import MAX_CRASHES, FetchResult, JobState, NewJob, OnFailure, Outcome
from interlock.ports.limits import Turn
from interlock.testing.simulator.checker import Verdict
from interlock.testing.simulator.events import LimitAsked, LimitFinished
from interlock.testing.simulator.history import Odd
from interlock.testing.simulator.job_events import (
    EnqueueEnded,
    FollowUpsAsked,
    HandlerBegan,
    HandlerEnded,
    HandlerRan,
    HandlerResisted,
    JobCancelled,
    JobRetried,
    JobsAcknowledged,
    JobsEnqueued,
    JobsFetched,
    JobsHandedBack,
    JobsLeft,
    JobsRescued,
    QueuePaused,
    QueueResumed,
)
from interlock.testing.simulator.lives import GRACE, Sessions, Standstills
from interlock.testing.simulator.model import Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import Acknowledgement, FetchedJob
    from interlock.ports.limits import Plan, Use
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
class _Fetch:
    session: str
    process: str
    fence: int
    fetch_number: int
    at: float
    ended_at: float = math.inf


@dataclass(slots=True)
class _Job:
    new: NewJob
    place: int | None
    """Its place in its lane; None where a late one is allowed to come at any time."""
    fetches: list[_Fetch] = field(default_factory=list)
    acknowledged: set[tuple[int, Outcome]] = field(default_factory=set)
    ended: JobState | None = None
    crashes: int = 0
    half: int | None = None
    """Of which half of a group of suspects it is."""
    end_asked: bool = False
    running: str = ""
    starts: int = 0

    @property
    def fetch(self) -> _Fetch | None:
        """The fetch that stands."""
        return self.fetches[-1] if self.fetches and self.fetches[-1].ended_at == math.inf else None


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
        self._starts: dict[str, list[tuple[float, int | str]]] = {}
        self._reserved: dict[str, Plan] = {}
        """Reservations that have started and not finished, by owner. Those of ended sessions no longer count."""
        self._resisted: set[tuple[int, int]] = set()
        self._paused: set[str] = set()
        self._asked: dict[tuple[int, int], int] = {}
        """How many follow-ups handlers asked for, by job and fence."""
        self._due: Counter[str] = Counter()
        """How many hooks and follow-ups there have to be, by cause."""
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
            case JobsFetched(_, process, session, fetch_number, FetchResult() as batch):
                self._fetched(process, session, fetch_number, batch)
            case JobsAcknowledged():
                for acknowledgement, accepted in zip(event.acknowledgements, event.acknowledged.accepted, strict=True):
                    self._acknowledged(acknowledgement, accepted)
            case JobsHandedBack():
                self._handed_back(event)
            case JobsRescued():
                self._rescued(event)
            case JobCancelled():
                self._cancelled(event)
            case QueuePaused():
                self._paused.add(event.queue)
            case QueueResumed():
                self._paused.discard(event.queue)
            case JobRetried():
                self._retried(event)
            case HandlerBegan():
                self._began(event)
            case FollowUpsAsked():
                self._asked[event.id, event.fence] = event.number
            case HandlerResisted():
                self._resisted.add((event.id, event.fence))
            case HandlerRan() | HandlerEnded():
                self._ran(event)
            case JobsLeft():
                self._left(event)
            case LimitAsked(_, _, plan, Turn(started=True)):
                if plan.owner not in self._reserved:
                    self._reserved[plan.owner] = plan
                    self._check_limits(plan.uses, plan.owner)
            case LimitFinished():
                self._reserved.pop(event.owner, None)
            case Odd():
                self._broken("odd", f"{event.process}: {event.what}")
            case _:
                if wrong := self._sessions.apply(event):
                    self._broken("session", wrong)

    def _broken(self, promise: str, what: str) -> None:
        self.verdict.violations.append(Violation(self._now, promise, what))

    # -- the store's side ------------------------------------------------------------------------------------------

    def _enqueued(self, new: NewJob) -> None:
        if new.id in self._jobs:
            return
        self._places += 1
        free = bool(new.delay or new.at is not None) or new.on_failure is OnFailure.SKIP
        job = self._jobs[new.id] = _Job(new, None if free else self._places)
        if new.lane:
            self._lanes.setdefault(new.lane, []).append(job)

    def _fetched(self, process: str, session: str, fetch_number: int, batch: FetchResult) -> None:
        if batch.jobs and self._sessions.ends_at(session) <= self._now:
            self._broken("session", "jobs were given to a session that had ended")
        given: set[int] = set()
        lanes: dict[str, int] = {}
        for got in batch.jobs:
            if got.id not in self._jobs and got.cause:
                self._jobs[got.id] = _Job(_new_job(got), None)  # a hook or a follow-up, which the store enqueued itself
            job = self._jobs.get(got.id)
            if job is None or job.ended:
                self._broken("exclusive", f"job {got.id} was given that is not there, or has ended")
                continue
            if got.queue in self._paused:
                self._broken("pause", f"job {got.id} was given while its queue {got.queue!r} was paused")
            if job.fetch is not None:
                self._broken("exclusive", f"job {got.id} was given while {job.fetch.session} had it")
            if job.fetches and got.fence <= job.fetches[-1].fence:
                self._broken("fence", f"job {got.id} got fence {got.fence} after {job.fetches[-1].fence}")
            self._check_lane(job, lanes, given)
            job.fetches.append(_Fetch(session, process, got.fence, fetch_number, self._now))
            self._check_limits(job.new.uses, got.id)
            given.add(got.id)
            if got.lane:
                lanes[got.lane] = got.id
            if got.half != job.half:
                self._broken("suspects", f"job {got.id} was given as of half {got.half}, but is of {job.half}")
        halves = {job.half for job in self._held(session) if job.half is not None}
        if len(halves) > 1:
            self._broken("suspects", f"{session} has suspects of several halves: {sorted(halves)}")

    def _held(self, session: str) -> list[_Job]:
        """The jobs that a session has fetched."""
        return [job for job in self._jobs.values() if job.fetch is not None and job.fetch.session == session]

    def _check_lane(self, job: _Job, lanes: dict[str, int], given: set[int]) -> None:
        for other in self._lanes.get(job.new.lane, ()):
            if other is job or other.ended:
                continue
            if other.fetch is not None and other.new.id not in given:
                self._broken("order", f"job {job.new.id} was given while job {other.new.id} of its lane was at work")
            before = job.place is not None and other.place is not None and other.place < job.place
            if before and other.new.id not in given:
                self._broken("order", f"job {job.new.id} was given before job {other.new.id} of its lane")

    def _check_limits(self, uses: Sequence[Use], who: int | str) -> None:
        """Check a start of a job or a reservation: both count under one key."""
        for use in uses:
            if use.per:
                times = self._starts.setdefault(use.key, [])
                times.append((self._now, who))
                recent = [at for at, _ in times if at > self._now - use.per + _SLACK]
                if len(recent) > use.max_count:
                    self._broken("limits", f"{len(recent)} starts within {use.per} s of {use.key}")
            else:
                held = [
                    one
                    for one in self._jobs.values()
                    if one.fetch is not None and any(other.key == use.key for other in one.new.uses)
                ]
                reserved = [
                    plan
                    for plan in self._reserved.values()
                    if self._sessions.ends_at(plan.session) > self._now and any(one.key == use.key for one in plan.uses)
                ]
                taken = len(held) + len(reserved)
                if taken > use.max_count:
                    self._broken("limits", f"{taken} have slots of {use.key}, which has {use.max_count}")

    def _acknowledged(self, acknowledgement: Acknowledgement, accepted: bool) -> None:
        job = self._jobs.get(acknowledgement.id)
        fetch = job.fetch if job is not None else None
        if job is None:
            self._broken("acknowledged", f"unknown job {acknowledgement.id} was acknowledged")
            return
        mine = fetch is not None and fetch.fence == acknowledgement.fence
        said = (acknowledgement.fence, acknowledgement.outcome)
        if accepted and not mine and said not in job.acknowledged and acknowledgement.outcome is not Outcome.RETURNED:
            self._broken(
                "acknowledged", f"{acknowledgement.outcome} of job {acknowledgement.id} counted without its fetch"
            )
        if not accepted and mine:
            self._broken(
                "acknowledged", f"{acknowledgement.outcome} of job {acknowledgement.id} was refused though it was due"
            )
        if not accepted and not mine:
            self.verdict.outcomes["refused"] += 1
        if not accepted or fetch is None or not mine:
            return
        fetch.ended_at = self._now
        job.acknowledged.add(said)
        self.verdict.outcomes[acknowledgement.outcome] += 1
        if acknowledgement.outcome is Outcome.RETURNED:
            self._forget_starts(job, fetch)
        elif acknowledgement.outcome is not Outcome.UNREADABLE:
            job.half = None
        end = _ENDS.get(acknowledgement.outcome)
        if job.end_asked and acknowledgement.outcome is not Outcome.DONE:
            end = JobState.CANCELLED
        if end is JobState.DONE and (asked := self._asked.get((job.new.id, fetch.fence))):
            self._due[f"job:{job.new.id}"] += asked
        if end is not None:
            self._end(job, end)

    def _end(self, job: _Job, state: JobState) -> None:
        """Note the end of a job, which its hooks follow."""
        job.ended = state
        hooks = sum(state in states for *_, states in decode_hooks(job.new.hooks)) if job.new.hooks else 0
        if hooks:
            self._due[f"end:{job.new.id}"] += hooks

    def _forget_starts(self, job: _Job, fetch: _Fetch) -> None:
        for use in job.new.uses:
            if use.per and (fetch.at, job.new.id) in self._starts.get(use.key, ()):
                self._starts[use.key].remove((fetch.at, job.new.id))

    def _handed_back(self, event: JobsHandedBack) -> None:
        for job in self._jobs.values():
            fetch = job.fetch
            if fetch is None or fetch.session != event.session or (event.fetch_number or math.inf) < fetch.fetch_number:
                continue
            if job.new.id not in event.but:
                fetch.ended_at = self._now
                self._forget_starts(job, fetch)
                if job.end_asked:
                    self._end(job, JobState.CANCELLED)
                if job.running == fetch.process and not self._excused(fetch, self._now):
                    self._broken("live", f"job {job.new.id} was handed back while it ran")

    def _rescued(self, event: JobsRescued) -> None:
        sessions = {one.session for one in event.rescued}
        suspects = {session: [job for job in self._held(session) if job.half is not None] for session in sessions}
        made = Counter(one.session for one in event.rescued if one.half is not None)
        for one in event.rescued:
            job = self._jobs[one.id]
            fetch = job.fetch
            if fetch is None or fetch.session != one.session:
                self._broken("live", f"job {one.id} was rescued that {one.session} did not have")
                continue
            if self._sessions.ends_at(fetch.session) > self._now:
                self._broken("live", f"job {one.id} was taken from a session that lives")
            fetch.ended_at = self._now
            others = [other for other in suspects[one.session] if other is not job]
            fresh = made[one.session] - (one.half is not None) if job.half is None else 0
            if one.crashes != job.crashes and (others or fresh):
                self._broken("suspects", f"a crash counted for job {one.id}, which was not the only suspect")
            job.crashes, job.half = one.crashes, one.half
            if one.quarantined and job.crashes < MAX_CRASHES:
                self._broken("quarantine", f"job {one.id} was quarantined after {job.crashes} crashes")
            if one.quarantined:
                self._end(job, JobState.QUARANTINED)
            elif job.end_asked:
                self._end(job, JobState.CANCELLED)
            self.verdict.outcomes["rescued"] += 1

    def _cancelled(self, event: JobCancelled) -> None:
        job = self._jobs.get(event.id)
        if job is not None and not job.ended:
            if event.state is JobState.CANCELLED:
                self._end(job, JobState.CANCELLED)
            elif event.state is not None and event.state.at_worker:
                job.end_asked = True

    def _retried(self, event: JobRetried) -> None:
        job = self._jobs.get(event.id)
        if job is not None and event.state is not None and not event.state.final:
            if job.ended:
                job.place = None  # it takes a new place, at the end of the line
                job.crashes, job.half = 0, None
            job.ended, job.end_asked = None, job.end_asked and not job.ended

    # -- the handlers' side ----------------------------------------------------------------------------------------

    def _began(self, event: HandlerBegan) -> None:
        job = self._jobs.get(event.id)
        fetch = next((fetch for fetch in job.fetches if fetch.fence == event.fence), None) if job is not None else None
        if job is None or fetch is None or fetch.process != event.process:
            self._broken("exclusive", f"job {event.id} ran without a fetch")
            return
        job.starts += 1
        if job.starts > 1:
            self.verdict.outcomes["started again"] += 1
        if self._over(fetch):
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
        fetch = next((fetch for fetch in job.fetches if fetch.fence == event.fence), None)
        if fetch is None:
            return  # said when it began
        if (event.id, event.fence) not in self._resisted:
            self._over(fetch)
        if isinstance(event, HandlerEnded) and job.running == event.process and job.fetches[-1] is fetch:
            job.running = ""

    def _over(self, fetch: _Fetch) -> bool:
        """Whether code runs under a fetch that has ended; says so if that is not to be excused."""
        end = min(fetch.ended_at, self._sessions.ends_at(fetch.session))
        if self._now <= end + GRACE:
            return False
        if self._excused(fetch, self._now):
            self.verdict.excused["ran on"] += 1
        else:
            self._broken("live", f"a handler in {fetch.process} ran on {self._now - end:.3f} s after its fetch")
        return True

    def _excused(self, fetch: _Fetch, now: float) -> bool:
        end = min(fetch.ended_at, self._sessions.ends_at(fetch.session))
        crashed = self._stood.crashed_at(fetch.process) <= now
        return crashed or self._stood.slept_through(fetch.process, min(end, now), now)

    def _excused_run(self, job: _Job) -> bool:
        """Whether what seems to run has really ended, or may be ignored: its process was killed, or stood still."""
        fetch = next((one for one in reversed(job.fetches) if one.process == job.running), None)
        return fetch is None or (job.new.id, fetch.fence) in self._resisted or self._excused(fetch, self._now)

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
            if not views[number].cause:
                self._broken("once", f"job {number} came from nowhere")
        # The jobs of events are judged with the events.
        found = Counter(view.cause for view in views.values() if view.cause and not view.cause.startswith("event:"))
        for cause in sorted(found.keys() | self._due.keys()):
            promise = "hooks" if cause.startswith("end:") else "follow-ups"
            self.verdict.outcomes[promise] += found[cause]
            if found[cause] != self._due[cause]:
                self._broken(promise, f"{found[cause]} jobs were caused by {cause}, and should be {self._due[cause]}")


def _new_job(got: FetchedJob) -> NewJob:
    """A job that the store enqueued, as far as a fetch tells of it; it has no lane and no limits."""
    how = (got.name, got.queue, got.lane, got.priority, 0.0, None, (), OnFailure.BLOCK, False, 0.0)
    return NewJob(got.id, *how, got.arguments, got.options, cause=got.cause)
