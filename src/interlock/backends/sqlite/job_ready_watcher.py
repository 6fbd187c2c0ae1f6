"""Notices jobs that other processes made ready, for workers here that fetched less than they asked for."""

from __future__ import annotations

import json
import math
import threading
from typing import TYPE_CHECKING, NamedTuple

from interlock.backends.pacing import micros
from interlock.backends.sqlite.job_fetch import kinds_of
from interlock.backends.sqlite.job_rows import FetchClass, JobRows, owner, sql

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

    from interlock.backends.sqlite.job_notifier import JobNotifier
    from interlock.ports.jobs import FetchRequest

__all__ = ["ReadyWatcher"]

_Wants = tuple[tuple[str, ...], tuple[str, ...], bool]


class _WaitingWorker(NamedTuple):
    """A worker that waits for jobs."""

    request: FetchRequest
    next_at: float
    """When it fetches again by itself, in microseconds."""


class ReadyWatcher:
    """Knows what each worker would fetch. A worker is notified once and has to fetch before it is notified again.

    A worker that has not fetched yet is notified of any job in its queues after every commit.
    """

    def __init__(
        self,
        rows: Callable[[sqlite3.Connection], JobRows],
        notifier: JobNotifier,
        eager: Callable[[bool], None],
        check_now: Callable[[], None],
    ) -> None:
        self._rows = rows
        self._notifier = notifier
        self._eager = eager
        self._look_now = check_now
        self._lock = threading.Lock()
        self._waiting: dict[_Wants, _WaitingWorker] = {}
        self._fetching: dict[_Wants, bool] = {}
        """Fetches in progress, and whether there was a commit meanwhile."""
        self._fetched: set[frozenset[str]] = set()
        """Queues from which a worker of this process has fetched at least once."""
        self._reported: set[int] = set()
        notifier.on_idle = self._forget

    def fetch_started(self, request: FetchRequest) -> None:
        """Record that a worker starts to fetch."""
        with self._lock:
            self._fetched.add(frozenset(request.queues))
            self._waiting.pop(_wants(request), None)
            self._fetching[_wants(request)] = False

    def fetch_incomplete(self, request: FetchRequest, recheck_in: float, now: float) -> None:
        """Record that a worker got too few jobs and fetches again by itself after so many seconds."""
        if not self._notifier.wanted:
            return
        next_at = math.inf if math.isinf(recheck_in) else micros(now + recheck_in)
        with self._lock:
            missed = self._fetching.pop(_wants(request), False)
            self._waiting[_wants(request)] = _WaitingWorker(request, next_at)
        self._eager(True)
        if missed:
            self._look_now()

    def fetch_complete(self, request: FetchRequest) -> None:
        """Record that a worker got enough jobs."""
        with self._lock:
            self._fetching.pop(_wants(request), None)
            idle = not self._waiting
        if idle:
            self._eager(False)

    def look(self, db: sqlite3.Connection) -> None:
        """Check the file after a commit. Runs in the watcher's thread."""
        with self._lock:
            for wants in self._fetching:
                self._fetching[wants] = True
            waiting = list(self._waiting.items())
            unknown = self._notifier.wanted - self._fetched
        for wants, waiting_worker in waiting:
            if self._finds(db, waiting_worker):
                with self._lock:
                    self._waiting.pop(wants, None)
                self._notifier.notify_workers(waiting_worker.request.queues)

        for queues in unknown:
            waiting_jobs = self._rows(db).one(sql.after_signals, limit=1)
            if waiting_jobs or any(
                any(kind.ready) or kind.next_at is not None for kind in kinds_of(self._rows(db), list(queues))
            ):
                self._notifier.notify_workers(queues)

    def due_owners(self, db: sqlite3.Connection, session: str) -> list[str]:
        """Return the watched jobs of a session that have ended and were not reported. Runs in the watcher's thread."""
        ended = {id for (id,) in self._rows(db).all(sql.watched_ended, session=session)} - self._reported  # noqa: A001
        self._reported |= ended
        return [owner(session, id) for id in sorted(ended)]  # noqa: A001

    def forget_reported(self) -> None:
        """Forget which ended jobs were reported, because they are watched no more."""
        self._reported = set()

    def _finds(self, db: sqlite3.Connection, waiting_worker: _WaitingWorker) -> bool:
        """Return whether there is a job for a worker, now or before it fetches again by itself."""
        rows, request = self._rows(db), waiting_worker.request
        (next_wake,) = rows.one(sql.next_wake) or (math.inf,)
        (next_expiry,) = rows.one(sql.next_expiry) or (math.inf,)
        if min(next_wake, next_expiry) < waiting_worker.next_at or rows.one(sql.after_signals, limit=1):
            return True
        classes = FetchClass.PACED + 1 if request.at_once else FetchClass.SLOTS + 1
        kinds = [kind for kind in kinds_of(rows, request.queues) if kind.name in request.names]
        if request.lanes:
            lanes = json.dumps([rows.lane(lane) for lane in request.lanes])
            times = (kind.next_at for kind in kinds if kind.next_at is not None)
            ready = bool(kinds) and rows.one(sql.ready_heads, lanes=lanes) is not None  # none of a paused queue
            return ready or min(times, default=math.inf) < waiting_worker.next_at
        if any(
            any(kind.ready[:classes]) or (kind.next_at is not None and kind.next_at < waiting_worker.next_at)
            for kind in kinds
        ):
            return True
        suspects = [kind.id for kind in kinds if kind.ready[FetchClass.SUSPECT]]
        if not suspects or not request.at_once:
            return False
        (half,) = rows.one(sql.half_of_session, session=request.session) or (None,)
        return rows.one(sql.ready_suspects, kinds=json.dumps(suspects), half=half) is not None

    def _forget(self) -> None:
        with self._lock:
            self._waiting.clear()
            self._fetching.clear()
            self._fetched.clear()
        self._eager(False)


def _wants(request: FetchRequest) -> _Wants:
    return request.queues, request.names, bool(request.lanes)
