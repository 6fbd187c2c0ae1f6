"""Fetches jobs for a session: ready jobs in order, each queue its share, limits acquired in the same transaction."""

from __future__ import annotations

import json
import math
from heapq import heapify, heappop, heapreplace, merge
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.job_composition import continue_waiting, expire
from interlock.backends.sqlite.job_finish import Ended, finish
from interlock.backends.sqlite.job_limit_json import is_paced, slots_of
from interlock.backends.sqlite.job_limits import LimitStates, add_starts, add_uses, wake, wake_due
from interlock.backends.sqlite.job_rows import FetchClass, JobRows, sql
from interlock.backends.sqlite.job_runs import Candidate, first_step, steps_after
from interlock.backends.sqlite.job_versions import offer_unreadable, still_unreadable
from interlock.ports.jobs import FetchedJob, FetchRequest, FetchResult, JobState, SessionEnded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["fetch", "kinds_of"]

_MAX_PROMOTED = 1000
_MAX_MOVED = 1000
"""How many jobs one fetch may move to the queues of limits. A fetch that finds more stops early."""
_MAX_PASSED = 1000
"""How many jobs that cannot start now one fetch may skip before it ignores all jobs of their classes."""


class Kind(NamedTuple):
    """The jobs of one name in one queue."""

    id: int
    queue: str
    name: str
    ready: tuple[int, ...]
    """Whether any is ready, for each fetch class."""
    next_at: int | None
    """When the next scheduled job is due."""


def kinds_of(rows: JobRows, queues: Sequence[str]) -> list[Kind]:
    """Return all kinds in some queues."""
    found = rows.all(sql.kinds, queues=json.dumps(list(dict.fromkeys(queues))))
    return [Kind(id, queue, name, tuple(ready), next_at) for id, queue, name, *ready, next_at in found]  # noqa: A001


def fetch(rows: JobRows, request: FetchRequest) -> FetchResult | SessionEnded:
    """Fetch jobs. Writes nothing if there is nothing to fetch, so that other processes do not wake up."""
    worker = rows.one(sql.worker, session=request.session)
    if worker is None:
        return SessionEnded()
    *worker, refused_fetches = worker
    if 0 < request.fetch_number <= refused_fetches:
        return FetchResult([], 0.0)
    (expires_at,) = rows.one(sql.next_expiry) or (None,)
    more = expires_at is not None and expires_at <= rows.now and expire(rows)
    more = continue_waiting(rows) or more
    kinds = kinds_of(rows, request.queues)
    due = [kind for kind in kinds if kind.next_at is not None and kind.next_at <= rows.now]
    promoted = _promote(rows, due)
    woken = wake_due(rows)
    if promoted or woken:
        kinds = kinds_of(rows, request.queues)
    offered = offer_unreadable(rows, request, kinds)
    if offered:
        kinds = kinds_of(rows, request.queues)
    fetching = _Fetching(rows, request, kinds)
    fetching.choose()
    jobs = fetching.keep(worker)
    still_unreadable(rows, offered)
    if fetching.cut or more or promoted >= _MAX_PROMOTED:
        return FetchResult(jobs, 0.0)
    names = set(request.names)
    times = [kind.next_at for kind in kinds if kind.next_at is not None and kind.name in names]
    times += [at for (at,) in rows.all(sql.next_wake)]
    if expires_at is not None:
        times += [at for (at,) in rows.all(sql.next_expiry)]
    return FetchResult(jobs, max(0.0, seconds(min(times) - rows.now)) if times else math.inf)


def _promote(rows: JobRows, kinds: Sequence[Kind]) -> int:
    """Make a bounded number of due jobs ready. Those with a lane get their positions in that order."""
    found = [rows.all(sql.due_jobs, kind=kind.id, limit=_MAX_PROMOTED) for kind in kinds]
    due = list(islice(merge(*found), _MAX_PROMOTED))
    if not due:
        return 0
    rows.run(sql.unschedule, ids=json.dumps([id for _, id, *_ in due]))  # noqa: A001
    rows.assign_positions([id for _, id, _, placed, lane in due if lane and not placed])  # noqa: A001
    unlaned = [(id, kind) for _, id, kind, _, lane in due if not lane]  # noqa: A001
    rows.make_ready([id for id, _ in unlaned], {kind for _, kind in unlaned})  # noqa: A001
    rows.advance_lanes(dict.fromkeys(lane for *_, lane in due if lane))
    return len(due)


class _Run:
    """Consecutive jobs of one lane."""

    __slots__ = ("jobs", "place")

    def __init__(self, first: Candidate, place: int) -> None:
        self.jobs = [first]
        self.place = place
        """The index of its first job in the fetch."""


class _Stream:
    """The ready jobs of one queue in order, without those of closed fetch classes."""

    def __init__(self, rows: JobRows, kinds: Sequence[Kind], lanes: Sequence[str] = ()) -> None:
        self.given = 0
        self.runs: list[_Run] = []
        """Runs that may be extended."""
        self._heads: list[tuple[Any, int, Iterator[Any]]] = []
        if lanes:
            ids = {kind.id for kind in kinds}
            keys = json.dumps([rows.lane(lane) for lane in lanes])
            for fetch_class, *job in rows.all(sql.ready_heads, lanes=keys):
                if job[2] in ids:
                    self._heads.append((tuple(job), fetch_class, iter(())))
            heapify(self._heads)
            return
        for kind in kinds:
            for fetch_class, ready in enumerate(kind.ready):
                if ready:
                    jobs = rows.stream(sql.ready_jobs, kind.id, fetch_class)
                    self._heads.append((next(jobs), fetch_class, jobs))
        heapify(self._heads)

    def next(self, closed: set[int], half: int | None) -> Any:
        """Return the next job; None if there is none. Only suspects of ``half`` are returned, if it is given."""
        heads = self._heads
        while heads:
            job, fetch_class, jobs = heads[0]
            following = None if fetch_class in closed else next(jobs, None)
            if following is None:
                heappop(heads)
            else:
                heapreplace(heads, (following, fetch_class, jobs))
            if fetch_class not in closed and not (
                fetch_class == FetchClass.SUSPECT and half is not None and job[-1] != half
            ):
                return job
        return None


class _Fetching:
    """One fetch: it first chooses jobs, then writes the result."""

    def __init__(self, rows: JobRows, request: FetchRequest, kinds: Sequence[Kind]) -> None:
        names = set(request.names)
        self._rows = rows
        self._request = request
        self._kinds = {kind.id: kind for kind in kinds if kind.name in names}
        self._keys = LimitStates(rows, self._kinds)
        self._closed: set[int] = set()
        self._half: int | None = None
        """The half whose suspects may be fetched, once there is one."""
        self._taken: list[Any] = []
        self._heads: list[int] = []
        """Jobs that are no longer ready."""
        self._queued: list[tuple[Candidate, str]] = []
        self._superseded: list[Ended] = []
        self._lanes: list[str] = []
        """Lanes whose next job has to become ready."""
        self._served: list[int] = []
        """Jobs that leave the queues of limits."""
        self._passed = 0
        self._behind = False
        """Whether a job was skipped only because of waiters before it, which may have left the queue since."""
        self.cut = False

    def choose(self) -> None:
        """Choose ready jobs, then extend runs of lanes with what is left of the request."""
        by_queue: dict[str, list[Kind]] = {}
        for kind in self._kinds.values():
            by_queue.setdefault(kind.queue, []).append(kind)
        if any(kind.ready[FetchClass.SUSPECT] for kind in self._kinds.values()):
            (self._half,) = self._rows.one(sql.half_of_session, session=self._request.session) or (None,)
        streams = [_Stream(self._rows, kinds, self._request.lanes) for kinds in by_queue.values()]
        self._choose_heads(list(streams))
        if not self.cut:
            self._extend_runs([stream for stream in streams if stream.runs])

    def _choose_heads(self, streams: list[_Stream]) -> None:
        """Choose from the queue that got least so far."""
        taken, limit, at_once = self._taken, self._request.limit, self._request.at_once
        while streams and len(taken) < limit:
            if len(taken) >= at_once:
                self._closed |= {FetchClass.PACED, FetchClass.SUSPECT}
            stream = streams[0] if len(streams) == 1 else min(streams, key=lambda stream: stream.given)
            row = stream.next(self._closed, self._half)
            if row is None:
                streams.remove(stream)
                continue
            before = len(taken)
            # Most jobs have neither lane nor limits and are not suspects: fetch them without further checks.
            if row[3] is None and row[10] is None and row[-1] is None:
                taken.append(row)
                self._heads.append(row[1])
            else:
                self._consider(stream, Candidate._make(row))
                if len(self._queued) >= _MAX_MOVED:
                    self.cut = True
                    return
                if self._passed >= _MAX_PASSED:
                    self._closed |= {FetchClass.SLOTS, FetchClass.PACED, FetchClass.SUSPECT}
            stream.given += len(taken) - before

    def _consider(self, stream: _Stream, head: Candidate) -> None:
        if head.lane is None:
            self._decide(head, head)
            return
        job, superseded, cut = first_step(self._rows, head, self._kinds[head.kind].name)
        if cut or job.kind not in self._kinds:
            # This worker cannot take it, or not yet: it becomes ready as the new first job of its lane.
            self._end_superseded(job, head, superseded)
            self._lanes.append(head.lane)
            self.cut = self.cut or cut
        elif self._decide(job, head, superseded) and self._may_lead(job):
            stream.runs.append(_Run(job, len(self._taken) - 1))

    def _may_lead(self, job: Candidate) -> bool:
        """Return whether a job may be the first of a run."""
        return not job.uses and job.half is None and self._request.run > 1

    def _extend_runs(self, streams: list[_Stream]) -> None:
        """Distribute what is left of the request evenly over the queues, and within each over its lanes."""
        runs = [run for stream in streams for run in stream.runs]
        rest = self._request.limit - len(self._taken)
        while rest > 0 and streams:
            stream = min(streams, key=lambda stream: stream.given)
            others = [other.given for other in streams if other is not stream]
            share = max(1, rest // len(streams), min(others) - stream.given if others else 0)
            got = self._extend_queue_runs(stream, min(share, rest))
            stream.given += got
            rest -= got
            streams = [stream for stream in streams if stream.runs]
        longer = {run.place: run.jobs for run in runs}
        if longer:
            self._taken = [job for place, first in enumerate(self._taken) for job in longer.get(place, (first,))]

    def _extend_queue_runs(self, stream: _Stream, share: int) -> int:
        """Extend the runs of a queue by up to ``share`` jobs in total; return by how many."""
        rest = share
        each = max(1, share // len(stream.runs))
        for run in list(stream.runs):
            wanted = min(each, rest, self._request.run - len(run.jobs))
            if rest == 0:
                break
            before = len(run.jobs)
            self._extend_run(run, wanted)
            rest -= len(run.jobs) - before
            if len(run.jobs) < before + wanted or len(run.jobs) >= self._request.run:
                stream.runs.remove(run)
        return share - rest

    def _extend_run(self, run: _Run, limit: int) -> None:
        """Add up to so many jobs of a lane to a run, as long as they can be part of it."""
        queue = self._kinds[run.jobs[0].kind].queue
        for job, superseded, cut in islice(steps_after(self._rows, run.jobs[-1]), limit):
            kind = self._kinds.get(job.kind)
            if cut or job.uses or job.half is not None or job.apart or kind is None or kind.queue != queue:
                return
            for id in superseded:  # noqa: A001
                self._superseded.append(Ended(id, JobState.SUPERSEDED, superseded_by=job.id))
            run.jobs.append(job)

    def _decide(self, job: Candidate, head: Candidate, superseded: Sequence[int] = ()) -> bool:
        """Take a job, move it to the queue of a limit, or skip it; return whether it was taken."""
        if job.half is not None and (FetchClass.SUSPECT in self._closed or self._half not in (None, job.half)):
            self._passed += 1
            return False
        if job.uses:
            shares = self._keys.shares(job.uses)
            at_once = self._request.at_once
            key, only_behind = self._keys.full(shares, head.ticket)
            if key and not (only_behind and head.ticket is not None):
                self._end_superseded(job, head, superseded)
                self._queued.append((job._replace(ticket=head.ticket), key))
                return False
            in_advance = len(self._taken) >= at_once and any(share.paced for share in shares)
            if key or in_advance or self._keys.scarce(shares, at_once):
                self._passed += 1
                self._behind = self._behind or bool(key)
                return False
            self._keys.take(shares, head.ticket)
        if job.half is not None:
            self._half = job.half
        self._end_superseded(job, head, superseded)
        if head.ticket is not None:
            self._served.append(job.id)
        self._taken.append(job)
        return True

    def _end_superseded(self, job: Candidate, head: Candidate, superseded: Sequence[int]) -> None:
        """End the jobs that another supersedes; the first job of the lane is no longer ready."""
        self._heads.append(head.id)
        for id in superseded:  # noqa: A001
            self._superseded.append(Ended(id, JobState.SUPERSEDED, superseded_by=job.id))

    # -- keeping it ------------------------------------------------------------------------------------------------

    def keep(self, worker: Sequence[Any]) -> list[FetchedJob]:
        """Write what was chosen."""
        rows, taken = self._rows, self._taken
        if not self._heads:
            return []
        rows.run(sql.remove_ready, ids=json.dumps(self._heads))
        keys = set(self._keys.touched)
        gone = [ended.id for ended in self._superseded]
        leaving = self._served + gone + [job.id for job, _ in self._queued]
        if leaving:
            keys.update(key for (key,) in rows.all(sql.leave_limit_queues, ids=json.dumps(leaving)))
        self._queue_for_limits()
        finish(rows, self._superseded)
        jobs = self._fetch(worker) if taken else []
        # Slots that the first waiters did not take go to those behind them.
        woken = bool(keys and wake(rows, keys) & self._kinds.keys())
        if len(taken) < self._request.limit and (woken or (self._behind and leaving)):
            self.cut = True
        rows.advance_lanes(self._lanes)
        return jobs

    def _queue_for_limits(self) -> None:
        rows, queued = self._rows, self._queued
        new = sum(1 for job, _ in queued if job.ticket is None)
        tickets = iter(rows.numbers("position", new) if new else ())
        places = []
        for job, key in queued:
            ticket = next(tickets) if job.ticket is None else job.ticket
            places.append((rows.namespace, key, job.kind, ticket, job.id, job.lane is not None))
        rows.each(sql.add_limit_wait, places)

    def _fetch(self, worker: Sequence[Any]) -> list[FetchedJob]:
        rows, session, kinds = self._rows, self._request.session, self._kinds
        host, pid, program, number = worker
        if number is None:
            (number,) = rows.one(sql.add_worker, session=session, host=host, pid=pid, program=program)
        fence = rows.fence()
        rows.run(
            sql.add_fetched,
            ids=json.dumps([job[1] for job in self._taken]),
            worker=number,
            fence=fence,
            fetch_number=self._request.fetch_number,
        )
        limited = [(job.id, job.uses) for job in self._taken if job[10]]
        if limited:
            add_uses(rows, limited)
            add_starts(rows, limited, micros(self._request.start_within))
        named = {kind.id: (kind.name, kind.queue) for kind in kinds.values()}
        lane_name = rows.lane_name
        jobs = []
        for job in self._taken:
            # Unpacked and packed once, because every job of every fetch comes by here.
            (_, job_id, kind, lane, _, attempt, crashes, priority, enqueued_at, due_at, uses, _,
             arguments, options, _, _, _, cause, expires_at, half) = job  # fmt: skip
            name, queue = named[kind]
            expires_in = None if expires_at is None else seconds(expires_at - rows.now)
            jobs.append(FetchedJob._make((
                job_id, name, queue, lane_name(lane), fence, attempt + 1, crashes, half, priority, enqueued_at, due_at,
                arguments, options, slots_of(uses), is_paced(uses), cause or "", expires_in, None,
            )))  # fmt: skip
        return jobs
