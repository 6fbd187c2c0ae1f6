"""A model of the jobs port in plain lists: given every step that a store took, it checks whether that was allowed.

Where the port leaves a choice (ties, which job of a limit's line has been woken already), the store's is taken over
after it was checked; everything else must be exactly as it is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.ports.jobs import MAX_CRASHES, PRIORITY_WEIGHT, Acknowledgement, JobState, NewJob, OnFailure, Outcome
from interlock.testing.conformance.jobs.model_checks import check_halves, check_order, check_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock.ports.job_views import JobView
    from interlock.ports.jobs import FetchedJob, FetchRequest, FetchResult, Rescued
    from interlock.ports.limits import Use

__all__ = ["Model", "ModelJob"]

_ROUNDING = 5e-6
"""Stores count in microseconds."""
_AGAIN = (JobState.FAILED, JobState.CANCELLED, JobState.DISCARDED, JobState.QUARANTINED)
_LIMITED = {JobState.READY, JobState.WAITING}


@dataclass(eq=False)
class ModelJob:
    """One job."""

    new: NewJob
    due: float
    position: float | None = None
    session: str = ""
    run: int = 0
    fetch_number: int = 0
    fence: int = 0
    failures: int = 0
    crashes: int = 0
    half: int | None = None
    """The half of a group of suspects that it belongs to."""
    scheduled: bool = False
    parked: bool = False
    cancelling: bool = False
    ended: JobState | None = None
    superseded_by: int | None = None
    stale: list[int] = field(default_factory=list)
    """Fences of fetches that ended otherwise than by acknowledgement, or as never started."""

    @property
    def id(self) -> int:
        """The job's id."""
        return self.new.id

    @property
    def lane(self) -> str:
        """Empty for none."""
        return self.new.lane

    @property
    def sort(self) -> float:
        """By which it competes."""
        return self.due - PRIORITY_WEIGHT * self.new.priority

    @property
    def idle(self) -> bool:
        """Whether nothing but its lane and limits can keep it from being fetched."""
        return not (self.ended or self.session or self.scheduled or self.parked)


@dataclass
class Model:
    """All jobs of a store, and what may become of them."""

    jobs: dict[int, ModelJob] = field(default_factory=dict)
    stopped: dict[str, set[str]] = field(default_factory=dict)
    """Lanes that are held or parked."""
    starts: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    """Per key of a pace: when, which job, with which fence."""
    _positions: int = 0
    _halves: int = 0
    _runs: int = 0

    # -- looking ---------------------------------------------------------------------------------------------------

    def unfinished(self) -> list[ModelJob]:
        """In no order."""
        return [job for job in self.jobs.values() if not job.ended]

    def lane(self, lane: str) -> list[ModelJob]:
        """Those that have a position, in order."""
        found = [job for job in self.unfinished() if job.lane == lane and job.position is not None]
        return sorted(found, key=lambda job: job.position or 0)

    def busy(self, lane: str) -> bool:
        """Whether one of the lane is fetched."""
        return any(job.session for job in self.lane(lane))

    def fetched(self, session: str) -> list[ModelJob]:
        """Those of a session, in the order of their positions."""
        found = [job for job in self.unfinished() if job.session == session]
        return sorted(found, key=lambda job: job.position or 0)

    def half(self, session: str) -> int | None:
        """The half of the suspects that a session has."""
        halves = {job.half for job in self.fetched(session) if job.half is not None}
        assert len(halves) <= 1, f"session {session} has suspects of halves {halves}"
        return next(iter(halves), None)

    def may_take(self, job: ModelJob, sessions: Iterable[str]) -> bool:
        """Whether one of these sessions has no suspects that this one must not run beside."""
        return job.half is None or any(self.half(session) in (None, job.half) for session in sessions)

    def offered(self) -> list[ModelJob]:
        """Those that could be fetched but for their limits."""
        return [
            job
            for job in self.unfinished()
            if job.idle
            and (
                not job.lane
                or (self.lane(job.lane)[0] is job and not self.busy(job.lane) and not self.stopped.get(job.lane))
            )
        ]

    def states(self, job: ModelJob) -> set[JobState]:
        """How the job may stand."""
        if job.ended:
            return {job.ended}
        if job.session:
            return {JobState.FETCHED}
        if job.scheduled:
            return {JobState.SCHEDULED}
        if job.parked:
            return {JobState.PARKED}
        if job.lane and (self.lane(job.lane)[0] is not job or self.busy(job.lane)):
            return {JobState.BEHIND}
        if job.lane and self.stopped.get(job.lane):
            return {JobState.HELD, JobState.WAITING} if job.new.uses else {JobState.HELD}
        return _LIMITED if job.new.uses else {JobState.READY}

    def room(self, use: Use, now: float) -> float:
        """How many more fetches a limit allows now."""
        if use.per:
            counting = [at for at, *_ in self.starts.get(use.key, ()) if at > now - use.per + _ROUNDING]
            return use.max_count - len(counting)
        return use.max_count - sum(job.session != "" and use in job.new.uses for job in self.unfinished())

    def next_change(self, queues: Sequence[str], now: float) -> float:
        """After how many seconds at most one has to look again, if all that could be fetched has been."""
        soonest = math.inf
        for job in self.unfinished():
            if job.new.queue in queues and job.scheduled and not self.stopped.get(job.lane):
                soonest = min(soonest, job.due - now)
        for job in self.offered():
            if job.new.queue in queues and any(use.per for use in job.new.uses):
                soonest = min(soonest, max(self._room_in(use, now) for use in job.new.uses))
        return soonest

    def _room_in(self, use: Use, now: float) -> float:
        if self.room(use, now) > 0:
            return 0.0
        if not use.per:
            return math.inf
        return sorted(at for at, *_ in self.starts[use.key])[-use.max_count] + use.per - now

    # -- steps -----------------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Iterable[NewJob], now: float) -> None:
        """They were accepted, if they were not known."""
        for new in jobs:
            if new.id not in self.jobs:
                job = self.jobs[new.id] = ModelJob(new, now + new.delay)
                job.scheduled = new.delay > 0
                if not job.scheduled:
                    self._take_position(job)

    def promote(self, queues: Sequence[str], now: float) -> None:
        """Whatever is due takes its position."""
        due = [job for job in self.unfinished() if job.scheduled and job.new.queue in queues and job.due <= now]
        for job in sorted(due, key=lambda job: job.due):
            job.scheduled = False
            if job.position is None:
                self._take_position(job)

    def fetch(self, wish: FetchRequest, batch: FetchResult, now: float) -> None:
        """The store gave these."""
        self.promote(wish.queues, now)
        offered = {job.id: job for job in self.offered() if self._wanted(job, wish)}
        assert len(batch.jobs) <= wish.limit
        check_order(offered, batch.jobs, wish)
        rest = list(batch.jobs)
        while rest:
            head = self.jobs[rest[0].id]
            length = 1
            while head.lane and length < len(rest) and rest[length].lane == head.lane:
                length += 1
            run, rest = rest[:length], rest[length:]
            place = len(batch.jobs) - len(rest) - length
            if head.half is not None or any(use.per for use in head.new.uses):
                assert place < wish.at_once, f"job {head.id} was fetched in advance"
            self._give(wish, run, offered, now)
        self.half(wish.session)
        if len(batch.jobs) < wish.limit and batch.recheck_in > 0:
            left = [job for job in self.offered() if self._wanted(job, wish) and not job.new.uses]
            left = [job for job in left if job.half is None]
            assert not left, f"ready, but not given: {[job.id for job in left]}"

    def check_all_given(self, queues: Sequence[str], sessions: Sequence[str], recheck_in: float, now: float) -> None:
        """Nothing that could be fetched was left, by sessions that know all names and can start any number."""
        for job in self.offered():
            if job.new.queue in queues and self.may_take(job, sessions):
                full = [use.key for use in job.new.uses if self.room(use, now) <= 0]
                assert full, f"job {job.id} could be fetched, but is not given"
        assert recheck_in <= self.next_change(queues, now) + 0.001, "one would look again too late"

    def acknowledge(self, acknowledgements: Sequence[Acknowledgement], now: float) -> list[bool]:
        """Whether each has to be accepted."""
        accepted = []
        for end in acknowledgements:
            job = self.jobs[end.id]
            accepted.append(job.session != "" and job.fence == end.fence)
            if accepted[-1]:
                self._acknowledge(job, end, now)
        return accepted

    def return_unstarted(self, session: str, but: Sequence[int], fetch_number: int | None) -> int:
        """How many."""
        upto = math.inf if fetch_number is None else fetch_number
        gone = [job for job in self.fetched(session) if job.id not in but and job.fetch_number <= upto]
        for job in gone:
            self._give_back(job)
        return len(gone)

    def rescue(self, dead: str, rescued: Sequence[Rescued]) -> None:
        """The store took these from a session that has ended."""
        mine = self.fetched(dead)
        firsts = {job.run: job for job in reversed(mine)}
        assert sorted(job.id for job in rescued) == sorted(job.id for job in mine)
        told = {job.id: job for job in rescued}
        ran = [job for job in mine if firsts[job.run] is job]
        suspects = [job for job in ran if job.half is not None]
        for half in {job.half for job in ran}:
            check_halves([job for job in ran if job.half == half], told, self._halves)
        blamed = suspects or ran
        for job in mine:
            job.session = ""
            job.stale.append(job.fence)
            alone = len(blamed) == 1 and blamed[0] is job
            job.crashes += alone
            job.half = told[job.id].half
            self._halves = max(self._halves, job.half or 0)
            assert told[job.id].crashes == job.crashes, told[job.id]
            if job.cancelling:
                self._end(job, JobState.CANCELLED)
            elif alone and job.crashes >= MAX_CRASHES:
                self._end(job, JobState.QUARANTINED)
            assert told[job.id].quarantined is (job.ended is JobState.QUARANTINED)
            assert (job.half is not None) is (job in ran and not job.ended), f"job {job.id} is of half {job.half}"

    def cancel(self, job: ModelJob) -> None:
        """A person wants its end."""
        if job.session:
            job.cancelling = True
        elif not job.ended:
            self._end(job, JobState.CANCELLED)

    def retry(self, job: ModelJob, now: float) -> None:
        """A person wants it to run now."""
        if job.ended in _AGAIN:
            job.ended, job.failures, job.crashes, job.cancelling, job.due = None, 0, 0, False, now
            job.half = None
            self._take_position(job)
        elif job.scheduled or job.parked:
            job.scheduled, job.parked, job.due = False, False, now
            if job.position is None:
                self._take_position(job)

    def check(self, views: Sequence[JobView]) -> None:
        """A look at all jobs shows what is true."""
        assert {view.id for view in views} == set(self.jobs), "jobs were lost or made up"
        for view in views:
            job = self.jobs[view.id]
            assert view.state in self.states(job), f"job {job.id} is {view.state}, but should be {self.states(job)}"
            assert view.crashes == job.crashes
            assert view.superseded_by == job.superseded_by
            assert view.fence == job.fence
            if view.state in (JobState.DONE, JobState.FAILED) or not view.state.final:
                under_way = view.state.at_worker or view.state is JobState.DONE
                assert view.attempt == job.failures + under_way, f"job {job.id} ({view.state})"
            if not view.state.final:
                assert abs(view.due_at - job.due) < _ROUNDING, f"job {job.id} ({view.state}) is due at {view.due_at}"

    # -- parts of steps --------------------------------------------------------------------------------------------

    def _take_position(self, job: ModelJob) -> None:
        self._positions += 1
        job.position = self._positions

    def _wanted(self, job: ModelJob, wish: FetchRequest) -> bool:
        return job.new.queue in wish.queues and job.new.name in wish.names

    def _give(self, wish: FetchRequest, run: Sequence[FetchedJob], offered: dict[int, ModelJob], now: float) -> None:
        """One job, or a run of one lane."""
        given = [self.jobs[job.id] for job in run]
        lane = self.lane(given[0].lane) if given[0].lane else given[:1]
        assert lane[0].id in offered, f"job {lane[0].id} was given, but may not be"
        for old, newer in check_run(lane, given, wish):
            old.superseded_by = newer.id
            self._end(old, JobState.SUPERSEDED)
        self._runs += 1
        for told, job in zip(run, given, strict=True):
            assert told.fence > job.fence, f"the fence of job {job.id} did not grow"
            assert (told.attempt, told.crashes, told.half) == (job.failures + 1, job.crashes, job.half)
            for use in job.new.uses:
                assert self.room(use, now) > 0, f"limit {use.key} was exceeded by job {job.id}"
            job.session, job.fence, job.run, job.fetch_number = wish.session, told.fence, self._runs, wish.fetch_number
            job.cancelling = False
            for use in job.new.uses:
                if use.per:
                    self.starts.setdefault(use.key, []).append((now, job.id, told.fence))

    def _give_back(self, job: ModelJob) -> None:
        for key, starts in self.starts.items():
            self.starts[key] = [start for start in starts if start[1:] != (job.id, job.fence)]
        job.session = ""
        job.stale.append(job.fence)
        if job.cancelling:
            self._end(job, JobState.CANCELLED)

    def _acknowledge(self, job: ModelJob, end: Acknowledgement, now: float) -> None:
        outcome = end.outcome
        if outcome is Outcome.RETURNED:
            self._give_back(job)
            return
        job.session, job.half = "", None
        if job.cancelling and outcome is not Outcome.DONE:
            self._end(job, JobState.CANCELLED)
        elif outcome in (Outcome.RETRY, Outcome.SNOOZED):
            job.scheduled, job.due = True, now + end.delay
            if outcome is Outcome.RETRY:
                job.failures += 1
                if job.new.on_failure is OnFailure.SKIP:
                    job.position = None
        elif outcome is Outcome.PARKED:
            job.parked = True
        else:
            job.failures += outcome is Outcome.FAILED
            self._end(job, JobState(outcome.value))

    def _end(self, job: ModelJob, state: JobState) -> None:
        job.ended, job.session, job.scheduled, job.parked = state, "", False, False
        if state in (JobState.FAILED, JobState.QUARANTINED) and job.lane and job.new.on_failure is OnFailure.PARK:
            self.stopped.setdefault(job.lane, set()).add("parked")
