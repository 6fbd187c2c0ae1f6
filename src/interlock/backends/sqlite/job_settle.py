"""How claims end: settled by their worker, handed back, or taken from a session that has ended."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_attempts import Who, add_attempt, last_fence
from interlock.backends.sqlite.job_finish import Ended, finish, finish_done
from interlock.backends.sqlite.job_limits import free, unstart, wake
from interlock.backends.sqlite.job_refusals import park_refused, refused_by
from interlock.backends.sqlite.job_rows import JobRows, claimant, sql
from interlock.ports.jobs import MOST_CRASHES, Failing, JobState, Outcome, Rescued, Settled, Settlement

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["hand_back", "rescue", "settle"]

_CRASHED = "crashed"
_INTERRUPTED = "interrupted"
_ANY = 2**62
_DIED = "its worker died"
_ENDS = {
    Outcome.FAILED: JobState.FAILED,
    Outcome.DISCARDED: JobState.DISCARDED,
    Outcome.CANCELLED: JobState.CANCELLED,
}


class _Claim(NamedTuple):
    """A claim that is to end."""

    id: int
    fence: int
    claimed_at: int
    lane: str | None
    uses: str | None
    cancel: str | None
    told: int


class _Job(NamedTuple):
    """What has to be known of a job that is not simply done."""

    id: int
    kind: int
    lane: str | None
    position: int | None
    attempt: int
    crashes: int
    half: int | None
    failing: str
    attempts: str | None
    refused_by: str | None
    sort: int


def settle(rows: JobRows, session: str, settlements: Sequence[Settlement]) -> Settled:
    """End claims of a session, each on its own."""
    worker = rows.one(sql.worker_of_session, session=session)
    if worker is None:
        return Settled([False] * len(settlements), ready=False)
    number, *about = worker
    wanted = json.dumps([settlement.id for settlement in settlements])
    claims = {claim[0]: claim for claim in rows.all(sql.claims, ids=wanted, worker=number)}
    ending = _Ending(rows, Who(session, *about))
    accepted = [False] * len(settlements)
    late = []
    for at, settlement in enumerate(settlements):
        claim = claims.get(settlement.id)
        if claim is None or claim[1] != settlement.fence:
            late.append(at)
            continue
        del claims[settlement.id]
        accepted[at] = True
        ending.add(claim, settlement)
    ending.keep()
    if late:
        _judge_late(rows, settlements, late, accepted)
    return Settled(accepted, ready=rows.offered)


def hand_back(rows: JobRows, session: str, but: Sequence[int], turn: int | None) -> int:
    """Return what a session has claimed, up to a turn if one is given, as never started."""
    if turn is not None:
        rows.run(sql.bar, session=session, turn=turn)
    worker = rows.one(sql.worker_of_session, session=session)
    if worker is None:
        return 0
    number, *about = worker
    claims = rows.all(
        sql.claims_of_worker, worker=number, but=json.dumps(list(but)), turn=_ANY if turn is None else turn
    )
    ending = _Ending(rows, Who(session, *about))
    for claim in claims:
        ending.add(claim, Settlement(claim[0], claim[1], Outcome.RETURNED))
    ending.keep()
    return len(claims)


def rescue(rows: JobRows, most: int) -> list[Rescued]:
    """Take the jobs of sessions that have ended, of each lane those behind first: they cannot have been at work."""
    dead: dict[int, _Dead] = {}
    for row in rows.all(sql.dead_claims, limit=most):
        (worker, session, host, pid, program, leaving, crashed, ran, all_ran, suspects), claim = row[:10], row[10:]
        one = dead.get(worker)
        if one is None:
            one = dead[worker] = _Dead(rows, worker, Who(session, host, pid, program), crashed, all_ran, suspects)
        one.add(_Claim._make(claim), ran=bool(ran), leaving=bool(leaving))
    return [rescued for one in dead.values() for rescued in one.rescue()]


class _Dead:
    """Jobs of one session that has ended. Those that may have been running become suspects.

    What was no suspect before, and what was of the same half, is a group that is parted into two new halves. The
    crash counts only for a job that was the only suspect, or was no suspect and had no other beside it; and not if
    the session is rescued in parts and this is not the first of them.
    """

    def __init__(self, rows: JobRows, worker: int, who: Who, crashed: int, all_ran: int, suspects: int) -> None:
        self._rows = rows
        self._worker = worker
        self._ending = _Ending(rows, who)
        self._crashed = crashed
        self._all_ran = all_ran
        self._suspects = suspects
        self._behind: list[_Claim] = []
        self._interrupted: list[_Claim] = []
        self._ran: list[_Claim] = []

    def add(self, claim: _Claim, *, ran: bool, leaving: bool) -> None:
        """One of its jobs, whether it may have been running, and whether the process had been told to end."""
        (self._behind if not ran else self._interrupted if leaving else self._ran).append(claim)

    def rescue(self) -> list[Rescued]:
        """Take them all."""
        rows, ending = self._rows, self._ending
        jobs = {claim.id: ending.job(claim.id) for claim in (*self._behind, *self._interrupted, *self._ran)}
        rescued = [ending.take_back(claim, jobs[claim.id]) for claim in self._behind]
        rescued += [ending.interrupt(claim, jobs[claim.id]) for claim in self._interrupted]
        groups: dict[int | None, list[_Claim]] = {}
        for claim in sorted(self._ran, key=lambda claim: (jobs[claim.id].sort, claim.id)):
            groups.setdefault(jobs[claim.id].half, []).append(claim)
        numbers = rows.numbers("group", len(groups)) if groups else range(0)
        for number, (half, claims) in zip(numbers, groups.items(), strict=True):
            counts = not self._crashed and (half is not None or not self._suspects)
            alone = counts and (self._suspects if half is not None else self._all_ran) == 1
            for place, claim in enumerate(claims):
                new_half = 2 * number + (2 * place >= len(claims))
                rescued.append(ending.take(claim, jobs[claim.id], new_half, alone=alone))
        if groups:
            rows.run(sql.note_crashed, worker=self._worker)
        ending.keep()
        return rescued


def _judge_late(rows: JobRows, settlements: Sequence[Settlement], late: list[int], accepted: list[bool]) -> None:
    """Accept once more what was accepted before."""
    wanted = json.dumps([settlements[at].id for at in late])
    known = {id: rest for id, *rest in rows.all(sql.fences, ids=wanted)}  # noqa: A001
    for at in late:
        settlement = settlements[at]
        state, fence, attempts, claimed = known.get(settlement.id, (None, 0, None, False))
        if state == JobState.DONE:
            accepted[at] = fence == settlement.fence
        elif settlement.outcome is Outcome.RETURNED and not claimed and state is not None:
            accepted[at] = fence == settlement.fence and fence not in (
                last_fence(attempts, _CRASHED),
                last_fence(attempts, _INTERRUPTED),
            )
        else:
            accepted[at] = last_fence(attempts, but=(_CRASHED, _INTERRUPTED)) == settlement.fence


class _Ending:
    """The ends of several claims of one session: gathered, then kept in a few steps."""

    def __init__(self, rows: JobRows, who: Who) -> None:
        self._rows = rows
        self._who = who
        self._ids: list[int] = []
        self._claims: list[_Claim] = []
        """Those that hold more than their jobs: a lane, limits, a message."""
        self._done: dict[int, int] = {}
        self._results: list[dict[str, Any]] = []
        self._others: list[tuple[_Claim, Settlement]] = []
        self._finished: list[Ended] = []
        self._unstarted: list[_Claim] = []
        self._jobs: dict[int, _Job] = {}
        self._ready: list[_Job] = []
        self._later: list[_Job] = []
        self._new_places: list[int] = []

    def add(self, row: Sequence[Any], settlement: Settlement) -> None:
        """A claim ends as its worker says, or as cancelled if that was asked for and it is not done."""
        id, _, _, lane, uses, _, told = row  # noqa: A001
        self._ids.append(id)
        done = settlement.outcome is Outcome.DONE
        if done:
            self._done[id] = int(settlement.ran * 1_000_000)
            if settlement.result is not None:
                self._results.append({"id": id, "result": settlement.result})
            if not (lane or uses or told):
                return
        claim = _Claim._make(row)
        self._claims.append(claim)
        if not done:
            self._others.append((claim, settlement))

    def take_back(self, claim: _Claim, job: _Job) -> Rescued:
        """A claim of a job that cannot have been running ends with its session."""
        self._ids.append(claim.id)
        self._claims.append(claim)
        if claim.cancel is not None:
            self._finish(claim, job, JobState.CANCELLED, claim.cancel, "")
            return self._rescued(job, job.crashes)
        self._return(claim, job)
        return self._rescued(job, job.crashes, half=job.half)

    def take(self, claim: _Claim, job: _Job, half: int, *, alone: bool) -> Rescued:
        """A claim of a job that may have been running ends with its session."""
        self._ids.append(claim.id)
        self._claims.append(claim)
        crashes = job.crashes + alone
        if claim.cancel is not None:
            self._finish(claim, job, JobState.CANCELLED, claim.cancel, _CRASHED, crashes_more=alone)
            return self._rescued(job, crashes)
        if crashes >= MOST_CRASHES and alone:
            self._finish(claim, job, JobState.QUARANTINED, _DIED, _CRASHED, crashes_more=alone)
            return self._rescued(job, crashes, quarantined=True)
        attempts = self._attempt(claim, job, _CRASHED, self._rows.now - claim.claimed_at, _DIED, "")
        self._renew(claim, job, crashes=crashes, half=half, error=_DIED, attempts=attempts)
        self._back(job)
        return self._rescued(job, crashes, half=half)

    def _rescued(self, job: _Job, crashes: int, *, quarantined: bool = False, half: int | None = None) -> Rescued:
        (name,) = self._rows.one(sql.name_of_kind, kind=job.kind)
        return Rescued(job.id, name, self._who.session, crashes, quarantined, half)

    def interrupt(self, claim: _Claim, job: _Job) -> Rescued:
        """A claim that may have been at work ends with its session, whose process had been told to end."""
        if claim.cancel is not None:
            return self.take_back(claim, job)
        self._ids.append(claim.id)
        self._claims.append(claim)
        attempts = self._attempt(claim, job, _INTERRUPTED, self._rows.now - claim.claimed_at, "", "")
        self._renew(claim, job, half=job.half, attempts=attempts)
        self._back(job)
        return self._rescued(job, job.crashes, half=job.half)

    def keep(self) -> None:
        """Write it all down."""
        rows = self._rows
        if not self._ids:
            return
        if self._others:
            wanted = json.dumps([claim.id for claim, _ in self._others])
            self._jobs = {row[0]: _Job._make(row) for row in rows.all(sql.details, ids=wanted)}
            for claim, given in self._others:
                settlement = given._replace(error=_plain(given.error), trace=_plain(given.trace))
                self._end(claim, self._jobs[claim.id], settlement)
        if self._results:
            rows.each_named(sql.keep_result, self._results)
        finish_done(rows, self._done)
        if self._results:
            rows.each_named(sql.note_result, self._results)
        finish(rows, self._finished)
        rows.run(sql.unclaim, ids=json.dumps(self._ids))
        rows.place(self._new_places)
        rows.offer([job.id for job in self._ready], {job.kind for job in self._ready})
        rows.postpone([job.id for job in self._later], {job.kind for job in self._later})
        keys = free(rows, [(claim.id, claim.uses) for claim in self._claims if claim.uses])
        if keys:
            unstarted = [(claim.id, claim.uses) for claim in self._unstarted if claim.uses]
            unstart(rows, unstarted)
            wake(rows, keys)
            # Some may have been left ready by a claim that would not take the last slots in advance.
            left = {kind for (kind,) in rows.all(sql.kinds_with_limits)}
            rows.news |= left
            rows.offered = rows.offered or bool(left)
        rows.advance(dict.fromkeys(claim.lane for claim in self._claims if claim.lane))
        session = self._who.session
        told = [(rows.namespace, session, claimant(session, c.id, c.fence)) for c in self._claims if c.told]
        rows.each(sql.forget_told, told)

    # -- one claim -------------------------------------------------------------------------------------------------

    def job(self, id: int) -> _Job:  # noqa: A002
        """What has to be known of one job."""
        return _Job._make(self._rows.one(sql.details, ids=json.dumps([id])))

    def _end(self, claim: _Claim, job: _Job, settlement: Settlement) -> None:
        outcome, error = settlement.outcome, settlement.error
        if claim.cancel is not None:
            started = outcome not in (Outcome.RETURNED, Outcome.UNREADABLE)
            self._finish(claim, job, JobState.CANCELLED, claim.cancel, Outcome.CANCELLED if started else "", settlement)
        elif outcome in _ENDS:
            self._finish(claim, job, _ENDS[outcome], error, outcome, settlement)
        elif outcome is Outcome.RETURNED:
            self._return(claim, job)
        elif outcome is Outcome.UNREADABLE:
            self._refuse(claim, job, settlement)
        elif outcome is Outcome.PARKED:
            attempts = self._attempt(claim, job, outcome, micros(settlement.ran), error, settlement.trace)
            self._renew(claim, job, parked=error, attempts=attempts)
        else:
            self._put_off(claim, job, settlement)

    def _refuse(self, claim: _Claim, job: _Job, settlement: Settlement) -> None:
        """The job stands apart until a worker of another version takes it; if none lives, it is parked."""
        rows, error = self._rows, settlement.error
        attempts = self._attempt(claim, job, settlement.outcome, micros(settlement.ran), error, settlement.trace)
        versions = refused_by(job.refused_by, settlement.result or '["",""]')
        self._renew(claim, job, half=job.half, error=error, attempts=attempts, refused=1, refused_by=versions)
        if claim.uses:
            self._unstarted.append(claim)
        queue, name = rows.one(sql.queue_and_name_of_kind, kind=job.kind)
        park_refused(rows, queue, name, versions, [(job.id, error)])

    def _put_off(self, claim: _Claim, job: _Job, settlement: Settlement) -> None:
        """The job is due again after a while."""
        rows = self._rows
        failed = settlement.outcome is Outcome.RETRY
        attempts = self._attempt(
            claim, job, settlement.outcome, micros(settlement.ran), settlement.error, settlement.trace
        )
        skips = failed and job.failing == Failing.SKIP and job.lane is not None
        due_at = rows.now + max(0, micros(settlement.delay))
        self._renew(
            claim,
            job,
            attempt=job.attempt + failed,
            error=settlement.error if failed else None,
            attempts=attempts,
            due_at=due_at,
            position=None if skips else job.position,
            **({"refused": 0} if due_at > rows.now else {}),
        )
        if due_at > rows.now:
            self._later.append(job)
        else:
            if skips:
                self._new_places.append(job.id)
            self._back(job)

    def _return(self, claim: _Claim, job: _Job) -> None:
        """As if the job had never been claimed."""
        self._renew(claim, job, half=job.half)
        self._back(job)
        if claim.uses:
            self._unstarted.append(claim)

    def _back(self, job: _Job) -> None:
        """The job may be claimed again, at once or when its lane gets to it."""
        if job.lane is None and not job.refused_by:
            self._ready.append(job)

    def _finish(
        self,
        claim: _Claim,
        job: _Job,
        state: JobState,
        error: str,
        outcome: str,
        settlement: Settlement | None = None,
        crashes_more: int = 0,
    ) -> None:
        rows = self._rows
        ran = rows.now - claim.claimed_at if settlement is None else micros(settlement.ran)
        trace = "" if settlement is None else settlement.trace
        attempts = self._attempt(claim, job, outcome, ran, error, trace) if outcome else None
        more = bool(outcome) and outcome != _CRASHED
        self._finished.append(
            Ended(claim.id, state, error, ran, attempts, attempts_more=more, crashes_more=crashes_more)
        )
        if state in (JobState.FAILED, JobState.QUARANTINED) and job.failing == Failing.PARK and job.lane is not None:
            rows.run(sql.park_lane, lane=job.lane, reason=error)

    def _attempt(self, claim: _Claim, job: _Job, outcome: str, ran: int, error: str, trace: str) -> str:
        times = (self._rows.now - ran, self._rows.now)
        return add_attempt(job.attempts, (job.attempt + 1, outcome, *times, *self._who, claim.fence, error, trace))

    def _renew(self, claim: _Claim, job: _Job, **changes: Any) -> None:
        values = {
            "id": job.id,
            "attempt": job.attempt,
            "crashes": job.crashes,
            "half": None,
            "fence": claim.fence,
            "due_at": None,
            "position": job.position,
            "parked": None,
            "refused": int(bool(job.refused_by) and changes.get("parked") is None),
            "refused_by": job.refused_by,
            "error": None,
            "attempts": None,
        }
        self._rows.run(sql.renew, **(values | changes))


def _plain(text: str) -> str:
    """Text that can be written down: what is no character is replaced."""
    return text.encode("utf-8", "replace").decode()
