"""How fetched jobs end: acknowledged by their worker, returned unstarted, or rescued from a dead session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_attempts import Who, add_attempt, last_fence
from interlock.backends.sqlite.job_composition import expire_again
from interlock.backends.sqlite.job_enqueue import enqueue
from interlock.backends.sqlite.job_finish import Ended, finish, finish_done
from interlock.backends.sqlite.job_limits import delete_starts, free, note_freed, wake
from interlock.backends.sqlite.job_rows import JobRows, fetcher, sql
from interlock.backends.sqlite.job_versions import park_unreadable, unreadable_by
from interlock.ports.jobs import MAX_CRASHES, Acknowledged, Acknowledgement, JobState, OnFailure, Outcome, Rescued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.ports.jobs import NewJob

__all__ = ["return_unstarted", "rescue", "acknowledge"]

_CRASHED = "crashed"
_INTERRUPTED = "interrupted"
_ANY = 2**62
_DIED = "its worker died"
_ENDS = {
    Outcome.FAILED: JobState.FAILED,
    Outcome.DISCARDED: JobState.DISCARDED,
    Outcome.CANCELLED: JobState.CANCELLED,
}


class _Fetch(NamedTuple):
    """A fetched job whose fetch ends."""

    id: int
    fence: int
    fetched_at: int
    lane: str | None
    uses: str | None
    cancel: str | None
    notified: int
    hooked: int


class _Job(NamedTuple):
    """The columns of a job that is not simply done."""

    id: int
    kind: int
    lane: str | None
    position: int | None
    attempt: int
    crashes: int
    half: int | None
    on_failure: str
    attempts: str | None
    unreadable_by: str | None
    sort: int


def acknowledge(rows: JobRows, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
    """Acknowledge jobs of a session, each on its own."""
    worker = rows.one(sql.worker_of_session, session=session)
    if worker is None:
        return Acknowledged([False] * len(acknowledgements), ready=False)
    number, *about = worker
    wanted = json.dumps([acknowledgement.id for acknowledgement in acknowledgements])
    fetches = {fetch[0]: fetch for fetch in rows.all(sql.fetched_jobs, ids=wanted, worker=number)}
    ending = _Ending(rows, Who(session, *about))
    accepted = [False] * len(acknowledgements)
    late = []
    follow_ups: list[NewJob] = []
    for at, acknowledgement in enumerate(acknowledgements):
        fetch = fetches.get(acknowledgement.id)
        if fetch is None or fetch[1] != acknowledgement.fence:
            late.append(at)
            continue
        del fetches[acknowledgement.id]
        accepted[at] = True
        ending.add(fetch, acknowledgement)
        if acknowledgement.follow_ups:
            follow_ups += acknowledgement.follow_ups
    ending.keep()
    if follow_ups:
        enqueue(rows, follow_ups, again=False, strict=False)
    if late:
        _accept_repeated(rows, acknowledgements, late, accepted)
    return Acknowledged(accepted, ready=rows.made_ready)


def return_unstarted(rows: JobRows, session: str, but: Sequence[int], fetch_number: int | None) -> int:
    """Return a session's jobs, up to a fetch number if one is given, as never started."""
    if fetch_number is not None:
        rows.run(sql.refuse_fetches, session=session, fetch_number=fetch_number)
    worker = rows.one(sql.worker_of_session, session=session)
    if worker is None:
        return 0
    number, *about = worker
    fetches = rows.all(
        sql.fetched_by_worker,
        worker=number,
        but=json.dumps(list(but)),
        fetch_number=_ANY if fetch_number is None else fetch_number,
    )
    ending = _Ending(rows, Who(session, *about))
    for fetch in fetches:
        ending.add(fetch, Acknowledgement(fetch[0], fetch[1], Outcome.RETURNED))
    ending.keep()
    return len(fetches)


def rescue(rows: JobRows, limit: int) -> list[Rescued]:
    """Rescue the jobs of dead sessions. Of each lane those behind come first: they cannot have been running."""
    dead: dict[int, _Dead] = {}
    for row in rows.all(sql.fetched_by_dead, limit=limit):
        (worker, session, host, pid, program, leaving, crashed, ran, all_ran, suspects), fetch = row[:10], row[10:]
        one = dead.get(worker)
        if one is None:
            one = dead[worker] = _Dead(rows, worker, Who(session, host, pid, program), crashed, all_ran, suspects)
        one.add(_Fetch._make(fetch), ran=bool(ran), leaving=bool(leaving))
    return [rescued for one in dead.values() for rescued in one.rescue()]


class _Dead:
    """The jobs of one dead session. Those that may have been running become suspects.

    Jobs that were not suspects before, and jobs of the same half, form a group that is split into two new halves. The
    crash counts only for a job that was the only suspect, or that was not a suspect and ran alone. It does not count if
    the session is rescued in several steps and this is not the first.
    """

    def __init__(self, rows: JobRows, worker: int, who: Who, crashed: int, all_ran: int, suspects: int) -> None:
        self._rows = rows
        self._worker = worker
        self._ending = _Ending(rows, who)
        self._crashed = crashed
        self._all_ran = all_ran
        self._suspects = suspects
        self._behind: list[_Fetch] = []
        self._interrupted: list[_Fetch] = []
        self._ran: list[_Fetch] = []

    def add(self, fetch: _Fetch, *, ran: bool, leaving: bool) -> None:
        """Add one of its jobs, whether it may have been running, and whether the process was shutting down."""
        (self._behind if not ran else self._interrupted if leaving else self._ran).append(fetch)

    def rescue(self) -> list[Rescued]:
        """Rescue all of them."""
        rows, ending = self._rows, self._ending
        jobs = {fetch.id: ending.job(fetch.id) for fetch in (*self._behind, *self._interrupted, *self._ran)}
        rescued = [ending.take_back(fetch, jobs[fetch.id]) for fetch in self._behind]
        rescued += [ending.interrupt(fetch, jobs[fetch.id]) for fetch in self._interrupted]
        groups: dict[int | None, list[_Fetch]] = {}
        for fetch in sorted(self._ran, key=lambda fetch: (jobs[fetch.id].sort, fetch.id)):
            groups.setdefault(jobs[fetch.id].half, []).append(fetch)
        numbers = rows.numbers("group", len(groups)) if groups else range(0)
        for number, (half, fetches) in zip(numbers, groups.items(), strict=True):
            counts = not self._crashed and (half is not None or not self._suspects)
            alone = counts and (self._suspects if half is not None else self._all_ran) == 1
            for place, fetch in enumerate(fetches):
                new_half = 2 * number + (2 * place >= len(fetches))
                rescued.append(ending.take(fetch, jobs[fetch.id], new_half, alone=alone))
        if groups:
            rows.run(sql.mark_crashed, worker=self._worker)
        ending.keep()
        return rescued


def _accept_repeated(
    rows: JobRows, acknowledgements: Sequence[Acknowledgement], late: list[int], accepted: list[bool]
) -> None:
    """Accept again what was accepted before."""
    wanted = json.dumps([acknowledgements[at].id for at in late])
    known = {id: rest for id, *rest in rows.all(sql.last_fences, ids=wanted)}  # noqa: A001
    for at in late:
        acknowledgement = acknowledgements[at]
        state, fence, attempts, fetched = known.get(acknowledgement.id, (None, 0, None, False))
        if state == JobState.DONE:
            accepted[at] = fence == acknowledgement.fence
        elif acknowledgement.outcome is Outcome.RETURNED and not fetched and state is not None:
            accepted[at] = fence == acknowledgement.fence and fence not in (
                last_fence(attempts, _CRASHED),
                last_fence(attempts, _INTERRUPTED),
            )
        else:
            accepted[at] = last_fence(attempts, but=(_CRASHED, _INTERRUPTED)) == acknowledgement.fence


class _Ending:
    """Ends several fetches of one session: collects them, then writes them in a few statements."""

    def __init__(self, rows: JobRows, who: Who) -> None:
        self._rows = rows
        self._who = who
        self._ids: list[int] = []
        self._fetches: list[_Fetch] = []
        """Fetched jobs that also hold a lane or limits, or have a message."""
        self._done: dict[int, int] = {}
        self._hooked: list[int] = []
        """Those that are done and have end hooks."""
        self._results: list[dict[str, Any]] = []
        self._others: list[tuple[_Fetch, Acknowledgement]] = []
        self._finished: list[Ended] = []
        self._unstarted: list[_Fetch] = []
        self._jobs: dict[int, _Job] = {}
        self._ready: list[_Job] = []
        self._later: list[_Job] = []
        self._new_places: list[int] = []
        self._returned: list[int] = []
        """Jobs that have not started, and can expire again."""

    def add(self, row: Sequence[Any], acknowledgement: Acknowledgement) -> None:
        """End a fetch as its worker reports, or as cancelled if a cancellation was requested and it is not done."""
        id, _, _, lane, uses, _, notified, hooked = row  # noqa: A001
        self._ids.append(id)
        done = acknowledgement.outcome is Outcome.DONE
        if done:
            self._done[id] = int(acknowledgement.ran * 1_000_000)
            if acknowledgement.result is not None:
                self._results.append({"id": id, "result": acknowledgement.result})
            if hooked:
                self._hooked.append(id)
            if not (lane or uses or notified):
                return
        fetch = _Fetch._make(row)
        self._fetches.append(fetch)
        if not done:
            self._others.append((fetch, acknowledgement))

    def take_back(self, fetch: _Fetch, job: _Job) -> Rescued:
        """End the fetch of a job that cannot have been running, because its session ended."""
        self._ids.append(fetch.id)
        self._fetches.append(fetch)
        if fetch.cancel is not None:
            self._finish(fetch, job, JobState.CANCELLED, fetch.cancel, "")
            return self._rescued(job, job.crashes)
        self._return(fetch, job)
        return self._rescued(job, job.crashes, half=job.half)

    def take(self, fetch: _Fetch, job: _Job, half: int, *, alone: bool) -> Rescued:
        """End the fetch of a job that may have been running, because its session ended."""
        self._ids.append(fetch.id)
        self._fetches.append(fetch)
        crashes = job.crashes + alone
        if fetch.cancel is not None:
            self._finish(fetch, job, JobState.CANCELLED, fetch.cancel, _CRASHED, crashes_more=alone)
            return self._rescued(job, crashes)
        if crashes >= MAX_CRASHES and alone:
            self._finish(fetch, job, JobState.QUARANTINED, _DIED, _CRASHED, crashes_more=alone)
            return self._rescued(job, crashes, quarantined=True)
        attempts = self._attempt(fetch, job, _CRASHED, self._rows.now - fetch.fetched_at, _DIED, "")
        self._renew(fetch, job, crashes=crashes, half=half, error=_DIED, attempts=attempts)
        self._back(job)
        return self._rescued(job, crashes, half=half)

    def _rescued(self, job: _Job, crashes: int, *, quarantined: bool = False, half: int | None = None) -> Rescued:
        (name,) = self._rows.one(sql.name_of_kind, kind=job.kind)
        return Rescued(job.id, name, self._who.session, crashes, quarantined, half)

    def interrupt(self, fetch: _Fetch, job: _Job) -> Rescued:
        """End the fetch of a job that may have been running when its process was shutting down."""
        if fetch.cancel is not None:
            return self.take_back(fetch, job)
        self._ids.append(fetch.id)
        self._fetches.append(fetch)
        attempts = self._attempt(fetch, job, _INTERRUPTED, self._rows.now - fetch.fetched_at, "", "")
        self._renew(fetch, job, half=job.half, attempts=attempts)
        self._back(job)
        return self._rescued(job, job.crashes, half=job.half)

    def keep(self) -> None:
        """Write everything that was collected."""
        rows = self._rows
        if not self._ids:
            return
        if self._others:
            wanted = json.dumps([fetch.id for fetch, _ in self._others])
            self._jobs = {row[0]: _Job._make(row) for row in rows.all(sql.job_details, ids=wanted)}
            for fetch, given in self._others:
                acknowledgement = given._replace(error=_plain(given.error), trace=_plain(given.trace))
                self._end(fetch, self._jobs[fetch.id], acknowledgement)
        if self._results:
            rows.each_named(sql.add_result, self._results)
        finish_done(rows, self._done, self._hooked)
        if self._results:
            rows.each_named(sql.set_result_expiry, self._results)
        finish(rows, self._finished)
        rows.run(sql.delete_fetched, ids=json.dumps(self._ids))
        rows.assign_positions(self._new_places)
        rows.make_ready([job.id for job in self._ready], {job.kind for job in self._ready})
        rows.schedule([job.id for job in self._later], {job.kind for job in self._later})
        if self._returned:
            expire_again(rows, self._returned)
        keys = free(rows, [(fetch.id, fetch.uses) for fetch in self._fetches if fetch.uses])
        if keys:
            unstarted = [(fetch.id, fetch.uses) for fetch in self._unstarted if fetch.uses]
            delete_starts(rows, unstarted)
            note_freed(rows, keys)
            wake(rows, keys)
            # A fetch that would not take the last slots in advance may have left some jobs ready.
            left = {kind for (kind,) in rows.all(sql.kinds_with_limits)}
            rows.changed_kinds |= left
            rows.made_ready = rows.made_ready or bool(left)
        rows.advance_lanes(dict.fromkeys(fetch.lane for fetch in self._fetches if fetch.lane))
        session = self._who.session
        messages = [(rows.namespace, session, fetcher(session, c.id, c.fence)) for c in self._fetches if c.notified]
        rows.each(sql.delete_message, messages)

    # -- one fetch -------------------------------------------------------------------------------------------------

    def job(self, id: int) -> _Job:  # noqa: A002
        """Read the details of one job."""
        return _Job._make(self._rows.one(sql.job_details, ids=json.dumps([id])))

    def _end(self, fetch: _Fetch, job: _Job, acknowledgement: Acknowledgement) -> None:
        outcome, error = acknowledgement.outcome, acknowledgement.error
        if fetch.cancel is not None:
            started = outcome not in (Outcome.RETURNED, Outcome.UNREADABLE)
            self._finish(
                fetch, job, JobState.CANCELLED, fetch.cancel, Outcome.CANCELLED if started else "", acknowledgement
            )
        elif outcome in _ENDS:
            self._finish(fetch, job, _ENDS[outcome], error, outcome, acknowledgement)
        elif outcome is Outcome.RETURNED:
            self._return(fetch, job)
        elif outcome is Outcome.UNREADABLE:
            self._refuse(fetch, job, acknowledgement)
        elif outcome is Outcome.PARKED:
            attempts = self._attempt(fetch, job, outcome, micros(acknowledgement.ran), error, acknowledgement.trace)
            self._renew(fetch, job, parked=error, attempts=attempts)
        else:
            self._reschedule(fetch, job, acknowledgement)

    def _refuse(self, fetch: _Fetch, job: _Job, acknowledgement: Acknowledgement) -> None:
        """Set the job aside until a worker of another version fetches it; park it if there is no such worker."""
        rows, error = self._rows, acknowledgement.error
        attempts = self._attempt(
            fetch, job, acknowledgement.outcome, micros(acknowledgement.ran), error, acknowledgement.trace
        )
        versions = unreadable_by(job.unreadable_by, acknowledgement.result or '["",""]')
        self._returned.append(job.id)
        changes = {"unreadable": 1, "unreadable_by": versions, "started": False}
        self._renew(fetch, job, half=job.half, error=error, attempts=attempts, **changes)
        if fetch.uses:
            self._unstarted.append(fetch)
        queue, name = rows.one(sql.queue_and_name_of_kind, kind=job.kind)
        park_unreadable(rows, queue, name, versions, [(job.id, error)])

    def _reschedule(self, fetch: _Fetch, job: _Job, acknowledgement: Acknowledgement) -> None:
        """Schedule the job again for later."""
        rows = self._rows
        failed = acknowledgement.outcome is Outcome.RETRY
        attempts = self._attempt(
            fetch,
            job,
            acknowledgement.outcome,
            micros(acknowledgement.ran),
            acknowledgement.error,
            acknowledgement.trace,
        )
        skips = failed and job.on_failure == OnFailure.SKIP and job.lane is not None
        due_at = rows.now + max(0, micros(acknowledgement.delay))
        self._renew(
            fetch,
            job,
            attempt=job.attempt + failed,
            error=acknowledgement.error if failed else None,
            attempts=attempts,
            due_at=due_at,
            position=None if skips else job.position,
            **({"unreadable": 0} if due_at > rows.now else {}),
        )
        if due_at > rows.now:
            self._later.append(job)
        else:
            if skips:
                self._new_places.append(job.id)
            self._back(job)

    def _return(self, fetch: _Fetch, job: _Job) -> None:
        """Return the job as if it had never been fetched."""
        self._returned.append(job.id)
        self._renew(fetch, job, half=job.half, started=False)
        self._back(job)
        if fetch.uses:
            self._unstarted.append(fetch)

    def _back(self, job: _Job) -> None:
        """Let the job be fetched again, at once or when its lane reaches it."""
        if job.lane is None and not job.unreadable_by:
            self._ready.append(job)

    def _finish(
        self,
        fetch: _Fetch,
        job: _Job,
        state: JobState,
        error: str,
        outcome: str,
        acknowledgement: Acknowledgement | None = None,
        crashes_more: int = 0,
    ) -> None:
        rows = self._rows
        ran = rows.now - fetch.fetched_at if acknowledgement is None else micros(acknowledgement.ran)
        trace = "" if acknowledgement is None else acknowledgement.trace
        attempts = self._attempt(fetch, job, outcome, ran, error, trace) if outcome else None
        more = bool(outcome) and outcome != _CRASHED
        self._finished.append(
            Ended(fetch.id, state, error, ran, attempts, attempts_more=more, crashes_more=crashes_more)
        )
        if (
            state in (JobState.FAILED, JobState.QUARANTINED)
            and job.on_failure == OnFailure.PARK
            and job.lane is not None
        ):
            rows.run(sql.park_lane, lane=job.lane, reason=error)

    def _attempt(self, fetch: _Fetch, job: _Job, outcome: str, ran: int, error: str, trace: str) -> str:
        times = (self._rows.now - ran, self._rows.now)
        return add_attempt(job.attempts, (job.attempt + 1, outcome, *times, *self._who, fetch.fence, error, trace))

    def _renew(self, fetch: _Fetch, job: _Job, **changes: Any) -> None:
        values = {
            "id": job.id,
            "attempt": job.attempt,
            "crashes": job.crashes,
            "half": None,
            "fence": fetch.fence,
            "due_at": None,
            "position": job.position,
            "parked": None,
            "unreadable": int(bool(job.unreadable_by) and changes.get("parked") is None),
            "unreadable_by": job.unreadable_by,
            "error": None,
            "attempts": None,
            "started": True,
        }
        self._rows.run(sql.update_job, **(values | changes))


def _plain(text: str) -> str:
    """Return text that can be stored: invalid characters are replaced."""
    return text.encode("utf-8", "replace").decode()
