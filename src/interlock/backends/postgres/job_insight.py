"""The read side of jobs: each answer is a few statements, and each of them reads a bounded number of rows."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from interlock.backends.browsing import SECONDS, merged
from interlock.backends.composition import MAX_NEEDS, read_needs
from interlock.backends.handler_versions import decode_versions
from interlock.backends.log_chunks import decode_chunks
from interlock.backends.pacing import micros, seconds
from interlock.backends.postgres.clock import clock_of
from interlock.backends.postgres.job_browse import browse, sql
from interlock.backends.postgres.job_counts import activity, counts, queue_pauses
from interlock.backends.postgres.job_logs import log_status
from interlock.backends.postgres.job_views import job_view, lane_view, situation
from interlock.ports.insight import (
    MAX_COUNTED,
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
from interlock.ports.job_views import JobSituation, RowLock, WorkerView
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.backends.postgres.reader import Reader
    from interlock.clock import Clock
    from interlock.ports.insight import Changes, JobCounts
    from interlock.ports.job_logs import JobLogStatus, LogSlice
    from interlock.ports.job_views import JobFilter, JobView, LaneView
    from interlock.settings import Settings

__all__ = ["PostgresJobInsight"]

_NEWEST = 2**63 - 1
_ROUNDS = 10
_MAX_AHEAD = 1000
_MAX_AHEAD_OF_MANY = 100
_FEW = 5
_MAX_DEPTH = 1000
_MAX_LIMITS = 1000
_SCAN_LANES = 500


class PostgresJobInsight:
    """Implements the insight port for jobs."""

    def __init__(self, reader: Reader, settings: Settings, clock: Clock | None) -> None:
        self._fetch = reader.fetch
        self._namespace = settings.namespace
        self._clock = clock_of(clock)

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """Return one job in full."""
        rows = await self._fetch(sql.get, self._namespace, id, self._clock())
        return job_view(rows[0]) if rows else None

    async def log_statuses(self, ids: Sequence[int]) -> Mapping[int, JobLogStatus]:
        """Return the progress of jobs and the length of their logs."""
        rows = await self._fetch(sql.log_statuses, self._namespace, list(ids)) if ids else ()
        return {row[0]: log_status(row) for row in rows}

    async def log(self, id: int, *, after: int = 0, limit: int) -> LogSlice:  # noqa: A002
        """Return lines of a job's log."""
        # Each chunk has at least one of the lines; one more shows whether there are others.
        chunks = await self._fetch(sql.log_chunks, self._namespace, id, after, limit + 1)
        return decode_chunks(chunks[:limit], after, limit, more=len(chunks) > limit)

    async def jobs(self, filter: JobFilter, *, limit: int, before: int | None = None) -> JobSlice:  # noqa: A002
        """List jobs by ID, largest first."""
        found = await self.numbers(filter, limit=limit, before=before)
        told = await self.situations(found.ids)
        if filter.states:
            told = [one for one in told if one.job.state in filter.states]
        return JobSlice(told, found.more)

    async def numbers(self, filter: JobFilter, *, limit: int, before: int | None = None) -> Numbers:  # noqa: A002
        """List only their IDs."""
        ids: list[int] = []
        more: int | None = _NEWEST if before is None else before
        began = time.perf_counter()
        for n in range(_ROUNDS):
            if more is None or len(ids) >= limit or (n > 1 and time.perf_counter() - began > SECONDS):
                break
            left = limit - len(ids)
            sources = browse(self._fetch, self._namespace, filter, more, left, n)
            found, more = merged([source async for source in sources], left)
            ids += found
        return Numbers(ids, more)

    async def situations(self, ids: Sequence[int]) -> Sequence[JobSituation]:
        """Return what decides when each of these jobs runs."""
        if not ids:
            return []
        max_count = _MAX_AHEAD if len(ids) <= _FEW else _MAX_AHEAD_OF_MANY
        rows = await self._fetch(sql.situations, self._namespace, list(ids), max_count, self._clock())
        found = {told.job.id: told._replace(more_ahead=told.ahead >= max_count) for told in map(situation, rows)}
        if found:
            pauses = await queue_pauses(self._fetch, self._namespace)
            found = {id: told._replace(pause=pauses.get(told.job.queue)) for id, told in found.items()}  # noqa: A001
        blocked = [one.job.id for one in found.values() if one.job.state in (JobState.BLOCKED, JobState.PARKED)]
        if blocked:
            rows = await self._fetch(sql.needs, self._namespace, blocked, MAX_NEEDS)
            needs = read_needs((*row[:4], None if row[4] is None else seconds(row[4]), row[5]) for row in rows)
            found |= {id: found[id]._replace(**fields) for id, fields in needs.items()}  # noqa: A001
        missing = [id for id in ids if id not in found]  # noqa: A001
        if missing:
            for row in await self._fetch(sql.ended, self._namespace, missing, self._clock()):
                view = job_view(row, brief=True)
                found[view.id] = JobSituation(view, 0, None, None, "", "", None, None, "", "", (), None, 0, 0)
        return [found[id] for id in ids if id in found]  # noqa: A001

    async def row_locks(self, ids: Sequence[int]) -> Mapping[int, RowLock]:
        """Return the transactions that keep rows of these jobs locked."""
        locks: dict[int, RowLock] = {}
        for row in await self._fetch(sql.row_locks, self._namespace, list(ids), self._clock()):
            id, table, pid, program, user, state, lasted, now = row  # noqa: A001
            locks[id] = RowLock(table, pid, program, user, state, None if lasted is None else seconds(now) - lasted)
        return locks

    async def neighbours(self, id: int, *, limit: int) -> Neighbours:  # noqa: A002
        """Return the jobs next to one in its lane."""
        rows = await self._fetch(sql.neighbours, self._namespace, id, limit)
        if not rows:
            return Neighbours((), ())
        ahead, head, behind = rows[0]
        if ahead and head not in ahead:
            ahead[-1] = head
        return Neighbours(ahead[::-1], behind)

    async def lane_jobs(self, lane: str, *, limit: int) -> Sequence[int]:
        """List the first jobs of a lane."""
        ids = [row[0] for row in await self._fetch(sql.lane_jobs, self._namespace, lane, limit)]
        if len(ids) < limit:
            rows = await self._fetch(sql.lane_unplaced, self._namespace, lane, limit - len(ids))
            ids += [row[0] for row in rows]
        return ids

    async def lane(self, lane: str) -> LaneView | None:
        """Return one lane."""
        views = await self._lane_views([f"{self._namespace}/{lane}"], MAX_COUNTED)
        return views[0] if views else None

    async def lanes(self, *, show: LaneShow = LaneShow.ALL, limit: int, after: str = "") -> LaneSlice:
        """List lanes by name. Of lanes that do not match a bounded number is read."""
        names, floor = await self._lane_names(show, limit, f"{self._namespace}/{after}")
        views: list[LaneView] = []
        # In a list of waiting lanes some turn out not to wait; otherwise nearly all match.
        step = limit + 1
        for start in range(0, len(names), step):
            for view in await self._lane_views(names[start : start + step], _MAX_DEPTH):
                if len(views) >= limit:
                    return LaneSlice(views, views[-1].lane)
                waits = not view.state.at_worker and view.held_since is None and view.parked_since is None
                if show is not LaneShow.WAITING or waits:
                    views.append(view)
        return LaneSlice(views, None if floor is None else self._lane_name(floor))

    async def counts(self) -> JobCounts:
        """Count jobs by state."""
        views = await self.limits(limit=_MAX_LIMITS)
        full = sum(view.room_at is not None if view.per else view.taken >= view.max_count for view in views)
        return await counts(self._fetch, self._namespace, self._clock(), (len(views), full))

    async def workers(self, session: str | None = None, *, limit: int) -> Sequence[WorkerStatus]:
        """List live workers."""
        rows = await self._fetch(sql.workers, self._namespace, session, limit, self._clock())
        return [
            WorkerStatus(WorkerView(*row[:4]), tuple(row[4]), tuple(row[5]), *row[6:11])._replace(
                blocked_since=row[11],
                blocked_by=row[12],
                reads=decode_versions(row[13]),
                queue_runners=json.loads(row[14] or "{}"),
            )
            for row in rows
        ]

    async def fetched(self, session: str, *, limit: int) -> Sequence[int]:
        """List the jobs that a session has fetched."""
        return [id for (id,) in await self._fetch(sql.fetched, self._namespace, session, limit)]  # noqa: A001

    async def limits(self, key: str | None = None, *, limit: int, after: str = "") -> Sequence[JobLimitView]:
        """List limits that jobs are under."""
        if key is not None:
            rows = await self._fetch(sql.limit, self._namespace, key, self._clock())
        else:
            rows = await self._fetch(sql.limits, self._namespace, after, limit, self._clock())
        return [_limit(*row) for row in rows]

    async def limit_users(self, key: str, *, limit: int) -> JobLimitUsers:
        """Return the jobs that hold a limit, and those that wait for it."""
        holders = [
            *await self._fetch(sql.limit_holders, self._namespace, key, limit),
            *await self._fetch(sql.limit_starts, self._namespace, key, limit, self._clock()),
        ]
        waiters = await self._fetch(sql.limit_waiters, self._namespace, key, limit)
        return JobLimitUsers([_use(row) for row in holders[:limit]], [_use(row) for row in waiters])

    async def activity(self, width: float, spans: int, *, since: int = 0) -> Changes:
        """Count accepted and ended jobs by time span."""
        return await activity(self._fetch, self._namespace, self._clock(), (micros(width), spans, since))

    async def _lane_names(self, show: LaneShow, limit: int, after: str) -> tuple[list[str], str | None]:
        """Return the next lanes, and the name up to which the list is complete; None at the end."""
        where = (self._namespace, after)
        if show in (LaneShow.RUNNING, LaneShow.FETCHED):
            rows = await self._fetch(sql.fetched_lanes, *where, limit + 1, show is LaneShow.RUNNING)
            return [lane for (lane,) in rows], None
        held = await self._fetch(sql.held_lanes, *where, _SCAN_LANES)
        if show in (LaneShow.HELD, LaneShow.PARKED):
            names = [lane for lane, by_person, parked in held if (by_person if show is LaneShow.HELD else parked)]
            return names, held[-1][0] if len(held) >= _SCAN_LANES else None
        scan = limit + 1 if show is LaneShow.ALL else _SCAN_LANES
        names = [lane for (lane,) in await self._fetch(sql.lanes, *where, scan)]
        floor = names[-1] if len(names) >= scan else None
        if show is LaneShow.ALL:
            names = sorted({*names, *(lane for lane, *_ in held if floor is None or lane <= floor)})
        return names, floor

    async def _lane_views(self, names: Sequence[str], max_depth: int) -> list[LaneView]:
        rows = await self._fetch(sql.lane_views, self._namespace, list(names), max_depth, self._clock())
        return [lane_view(row) for row in rows]

    def _lane_name(self, lane: str) -> str:
        return lane[len(self._namespace) + 1 :]


def _limit(
    key: str,
    max_count: int | None,
    per: int | None,
    first_most: int | None,
    first_per: int | None,
    taken: int,
    started: int,
    waiting: int,
    wake_at: int | None,
    now: int,
) -> JobLimitView:
    figures = [figure for figure in (max_count if taken else None, first_most) if figure is not None]
    least = min(figures, default=max_count if max_count is not None else started)
    longest = max(per or 0, first_per or 0)
    opens = seconds(wake_at) if wake_at is not None and waiting and wake_at > now else None
    return JobLimitView(key, least, seconds(longest), started if longest else taken, waiting, opens, seconds(now))


def _use(row: Sequence[Any]) -> JobLimitUse:
    id, name, since, until, *who = row  # noqa: A001
    worker = None if who[0] is None else WorkerView(*who)
    return JobLimitUse(id, name, seconds(since), None if until is None else seconds(until), worker)
