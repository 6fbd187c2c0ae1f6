"""The read side of jobs in SQLite: bounded queries that never wait for writers."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from interlock.backends.browsing import SECONDS, merged
from interlock.backends.handler_versions import decode_versions
from interlock.backends.pacing import micros, seconds
from interlock.backends.sqlite.job_browse import browse
from interlock.backends.sqlite.job_counts import activity, counts
from interlock.backends.sqlite.job_limit_json import decode_limits
from interlock.backends.sqlite.job_limits import room_at
from interlock.backends.sqlite.job_logs import log, log_statuses
from interlock.backends.sqlite.job_rows import sql as jobs_sql
from interlock.backends.sqlite.job_situation import situations, sql
from interlock.backends.sqlite.job_views import find, lane_view, seconds_or_none
from interlock.ports.insight import (
    MAX_COUNTED,
    Changes,
    JobCounts,
    JobLimitUse,
    JobLimitUsers,
    JobLimitView,
    JobSlice,
    LaneShow,
    LaneSlice,
    Neighbours,
    Numbers,
    WorkerStatus,
)
from interlock.ports.job_views import WorkerView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.backends.sqlite.job_rows import JobRows
    from interlock.backends.sqlite.jobs import SqliteJobs
    from interlock.ports.job_logs import JobLogStatus, LogSlice
    from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, RowLock

__all__ = ["SqliteJobInsight"]

_NEWEST = 2**63 - 1
_ROUNDS = 10
_SCAN_LANES = 1000
_MAX_DEPTH = 1000
_MAX_LIMITS = 1000


class SqliteJobInsight:
    """Implements the insight port."""

    def __init__(self, jobs: SqliteJobs) -> None:
        self._read = jobs.read

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """Return one job in full."""
        return await self._read(lambda rows: find(rows, id))

    async def log_statuses(self, ids: Sequence[int]) -> Mapping[int, JobLogStatus]:
        """Return the progress of jobs and the length of their logs."""
        return await self._read(lambda rows: log_statuses(rows, ids)) if ids else {}

    async def log(self, id: int, *, after: int = 0, limit: int) -> LogSlice:  # noqa: A002
        """Return lines of a job's log."""
        return await self._read(lambda rows: log(rows, id, after, limit))

    async def jobs(self, filter: JobFilter, *, limit: int, before: int | None = None) -> JobSlice:  # noqa: A002
        """List jobs by ID, largest first."""
        return await self._read(lambda rows: _jobs(rows, filter, limit, before))

    async def numbers(self, filter: JobFilter, *, limit: int, before: int | None = None) -> Numbers:  # noqa: A002
        """List only the IDs of jobs."""
        return await self._read(lambda rows: _numbers(rows, filter, limit, before))

    async def situations(self, ids: Sequence[int]) -> Sequence[JobSituation]:
        """Return the situation of each job."""
        return await self._read(lambda rows: situations(rows, ids)) if ids else []

    async def row_locks(self, ids: Sequence[int]) -> Mapping[int, RowLock]:
        """Return none: SQLite locks the whole file, and does not say who did."""
        return {}

    async def neighbours(self, id: int, *, limit: int) -> Neighbours:  # noqa: A002
        """Return the jobs next to another in its lane."""
        return await self._read(lambda rows: _neighbours(rows, id, limit))

    async def lane_jobs(self, lane: str, *, limit: int) -> Sequence[int]:
        """Return the first jobs of a lane."""
        return await self._read(lambda rows: _lane_jobs(rows, lane, limit))

    async def lane(self, lane: str) -> LaneView | None:
        """Return one lane."""
        return await self._read(lambda rows: lane_view(rows, f"{rows.namespace}/{lane}", MAX_COUNTED))

    async def lanes(self, *, show: LaneShow = LaneShow.ALL, limit: int, after: str = "") -> LaneSlice:
        """List lanes by name."""
        return await self._read(lambda rows: _lanes(rows, show, limit, after))

    async def counts(self) -> JobCounts:
        """Count jobs by state and queue."""
        return await self._read(lambda rows: _counts(rows))

    async def workers(self, session: str | None = None, *, limit: int) -> Sequence[WorkerStatus]:
        """List live workers."""
        return await self._read(lambda rows: _workers(rows, session, limit))

    async def fetched(self, session: str, *, limit: int) -> Sequence[int]:
        """Return the jobs that a session has fetched."""
        return await self._read(lambda rows: _fetched(rows, session, limit))

    async def limits(self, key: str | None = None, *, limit: int, after: str = "") -> Sequence[JobLimitView]:
        """List the limits of jobs."""
        return await self._read(lambda rows: _limits(rows, key, limit, after))

    async def limit_users(self, key: str, *, limit: int) -> JobLimitUsers:
        """Return the jobs that hold a limit and those that wait for it."""
        return await self._read(lambda rows: _limit_users(rows, key, limit))

    async def activity(self, width: float, spans: int, *, since: int = 0) -> Changes:
        """Count the jobs that were enqueued and that ended, by time span."""
        return await self._read(lambda rows: activity(rows, micros(width), spans, since))


def _jobs(rows: JobRows, wanted: JobFilter, limit: int, before: int | None) -> JobSlice:
    found = _numbers(rows, wanted, limit, before)
    shown = situations(rows, found.ids)
    if wanted.states:
        shown = [situation for situation in shown if situation.job.state in wanted.states]
    return JobSlice(shown, found.more)


def _numbers(rows: JobRows, wanted: JobFilter, limit: int, before: int | None) -> Numbers:
    ids: list[int] = []
    more: int | None = _NEWEST if before is None else before
    began = time.perf_counter()
    for n in range(_ROUNDS):
        if more is None or len(ids) >= limit or (n > 1 and time.perf_counter() - began > SECONDS):
            break
        found, more = merged(browse(rows, wanted, more, limit - len(ids)), limit - len(ids))
        ids += found
    return Numbers(ids, more)


def _neighbours(rows: JobRows, id: int, limit: int) -> Neighbours:  # noqa: A002
    _, lane, position, *_ = rows.one(sql.job_keys, ids=json.dumps([id])) or (id, None, None)
    if lane is None or position is None:
        return Neighbours((), ())
    before = [one for (one,) in rows.all(sql.lane_before, lane=lane, position=position, limit=limit)]
    (head,) = rows.one(jobs_sql.first_of_lane, lane=lane)
    if before and head not in before:
        before[-1] = head
    behind = [one for (one,) in rows.all(sql.lane_behind, lane=lane, position=position, limit=limit)]
    return Neighbours(before[::-1], behind)


def _lane_jobs(rows: JobRows, lane: str, limit: int) -> list[int]:
    key = rows.lane(lane)
    ids = [number for (number,) in rows.all(sql.lane_jobs, lane=key, limit=limit)]
    if len(ids) < limit:
        ids += [number for (number,) in rows.all(sql.lane_without_position, lane=key, limit=limit - len(ids))]
    return ids


def _lanes(rows: JobRows, show: LaneShow, limit: int, after: str) -> LaneSlice:
    """Scan the lanes; skip a bounded number of those that do not match."""
    bounds = {"after": rows.lane(after) or f"{rows.namespace}/", "beyond": f"{rows.namespace}0"}
    held = rows.all(sql.held_lanes, **bounds, scan=_SCAN_LANES)
    names: list[str]
    floor: str | None = None
    if show in (LaneShow.HELD, LaneShow.PARKED):
        names = [lane for lane, by_person, parked in held if (by_person if show is LaneShow.HELD else parked)]
        floor = held[-1][0] if len(held) >= _SCAN_LANES else None
    elif show in (LaneShow.RUNNING, LaneShow.FETCHED):
        started = show is LaneShow.RUNNING
        names = [lane for (lane,) in rows.all(sql.fetched_lanes, **bounds, started=started, limit=limit + 1)]
    else:
        scan = limit + 1 if show is LaneShow.ALL else _SCAN_LANES
        busy = rows.all(sql.next_lanes, **bounds, scan=scan)
        floor = busy[-1][0] if len(busy) >= scan else None
        names = [lane for lane, placed in busy if placed]
        if show is LaneShow.ALL:
            names = sorted({*names, *(lane for lane, *_ in held if floor is None or lane <= floor)})
    views: list[LaneView] = []
    for n, name in enumerate(names):
        if len(views) >= limit:
            return LaneSlice(views, rows.lane_name(names[n - 1]))
        view = lane_view(rows, name, _MAX_DEPTH)
        if view is None:
            continue
        waits = not view.state.at_worker and view.held_since is None and view.parked_since is None
        if show is LaneShow.WAITING and not waits:
            continue
        views.append(view)
    return LaneSlice(views, None if floor is None else rows.lane_name(floor))


def _counts(rows: JobRows) -> JobCounts:
    views = _limits(rows, None, _MAX_LIMITS, "")
    full = sum(view.room_at is not None if view.per else view.taken >= view.max_count for view in views)
    return counts(rows, (len(views), full))


def _workers(rows: JobRows, session: str | None, limit: int) -> list[WorkerStatus]:
    return [
        WorkerStatus(
            WorkerView(*row[:4]),
            tuple(json.loads(row[4])),
            tuple(json.loads(row[5])),
            *row[6:11],
        )._replace(
            blocked_since=row[11],
            blocked_by=row[12],
            reads=decode_versions(row[13]),
            queue_runners=json.loads(row[14] or "{}"),
        )
        for row in rows.all(sql.workers, session=session, limit=limit)
    ]


def _fetched(rows: JobRows, session: str, limit: int) -> list[int]:
    return [number for (number,) in rows.all(sql.fetched_by_session, session=session, limit=limit)]


def _limits(rows: JobRows, key: str | None, limit: int, after: str) -> list[JobLimitView]:
    views: list[JobLimitView] = []
    while len(views) < limit:
        scan = limit - len(views)
        keys = [key] if key is not None else [name for (name,) in rows.all(sql.limit_keys, after=after, scan=scan)]
        views += [view for name in keys if (view := _limit(rows, name)) is not None]
        if key is not None or len(keys) < scan:
            break
        after = keys[-1]
    return views


def _limit(rows: JobRows, key: str) -> JobLimitView | None:
    """Return one limit; None if no job holds it, waits for it or has a start that still counts."""
    values: dict[str, Any] = {"key": key, "limit": MAX_COUNTED}
    taken, max_count, per = rows.one(sql.limit_used, **values)
    (waiting,) = rows.one(sql.limit_waiting, **values)
    (started,) = rows.one(sql.limit_started, **values)
    (uses,) = rows.one(sql.limit_of_waiter, **values) or (None,)
    quotas = [quota for name, quota in decode_limits(uses) if name == key] if uses else []
    if quotas:
        max_count = (
            min(quota.max_count for quota in quotas)
            if max_count is None
            else min(max_count, *(f.max_count for f in quotas))
        )
        per = max(per or 0, *(quota.per for quota in quotas))
    if max_count is None:
        # Only starts of ended jobs are left. Their quota is not known.
        return JobLimitView(key, started, 0.0, started, 0, None, seconds(rows.now)) if started else None
    opens = None
    if waiting and per and uses:
        opens = seconds_or_none(room_at(rows, key, decode_limits(uses)))
    return JobLimitView(key, max_count, seconds(per), started if per else taken, waiting, opens, seconds(rows.now))


def _limit_users(rows: JobRows, key: str, limit: int) -> JobLimitUsers:
    holders = rows.all(sql.limit_holders, key=key, limit=limit) + rows.all(sql.limit_starts, key=key, limit=limit)
    line: list[Any] = []
    for _, kind in rows.all(jobs_sql.limit_queues, keys=json.dumps([key])):
        line += rows.all(sql.limit_waiters, key=key, kind=kind, limit=limit)
    waiters = [JobLimitUse(id, name, seconds(due), None, None) for _, id, name, due in sorted(line)[:limit]]  # noqa: A001
    return JobLimitUsers([_use(row) for row in holders[:limit]], waiters)


def _use(row: Sequence[Any]) -> JobLimitUse:
    id, name, since, until, *who = row  # noqa: A001
    worker = None if who[0] is None else WorkerView(*who)
    return JobLimitUse(id, name, seconds(since), seconds_or_none(until), worker)
