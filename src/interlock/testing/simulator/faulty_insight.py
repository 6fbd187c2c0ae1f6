"""The read side of jobs as one simulated process sees it: at the end of its wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.insight import LaneShow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.insight import (
        Changes,
        JobCounts,
        JobInsight,
        JobLimitUsers,
        JobLimitView,
        JobSlice,
        LaneSlice,
        Neighbours,
        Numbers,
        WorkerStatus,
    )
    from interlock.ports.job_logs import JobLogStatus, LogSlice
    from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, RowLock
    from interlock.testing.simulator.wire import Wire

__all__ = ["FaultyInsight"]


class FaultyInsight:
    """Keeps the insight port over another's. Reads take no order, since they change nothing."""

    def __init__(self, insight: JobInsight, wire: Wire) -> None:
        self._insight = insight
        self._call = wire.call

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """Return one job."""
        return await self._call("get", (), lambda: self._insight.get(id))

    async def log_statuses(self, ids: Sequence[int]) -> Mapping[int, JobLogStatus]:
        """Return the progress of jobs and the length of their logs."""
        return await self._call("log_statuses", (), lambda: self._insight.log_statuses(ids))

    async def log(self, id: int, *, after: int = 0, limit: int) -> LogSlice:  # noqa: A002
        """Return lines of a job's log."""
        return await self._call("log", (), lambda: self._insight.log(id, after=after, limit=limit))

    async def jobs(self, filter: JobFilter, *, limit: int, before: int | None = None) -> JobSlice:  # noqa: A002
        """List jobs."""
        return await self._call("jobs", (), lambda: self._insight.jobs(filter, limit=limit, before=before))

    async def numbers(self, filter: JobFilter, *, limit: int, before: int | None = None) -> Numbers:  # noqa: A002
        """List the IDs of jobs."""
        return await self._call("numbers", (), lambda: self._insight.numbers(filter, limit=limit, before=before))

    async def situations(self, ids: Sequence[int]) -> Sequence[JobSituation]:
        """Return the situation of each job."""
        return await self._call("situations", (), lambda: self._insight.situations(ids))

    async def row_locks(self, ids: Sequence[int]) -> Mapping[int, RowLock]:
        """Return the transactions that keep rows locked."""
        return await self._call("row_locks", (), lambda: self._insight.row_locks(ids))

    async def neighbours(self, id: int, *, limit: int) -> Neighbours:  # noqa: A002
        """Return the jobs next to another in its lane."""
        return await self._call("neighbours", (), lambda: self._insight.neighbours(id, limit=limit))

    async def lane_jobs(self, lane: str, *, limit: int) -> Sequence[int]:
        """Return the first jobs of a lane."""
        return await self._call("lane_jobs", (), lambda: self._insight.lane_jobs(lane, limit=limit))

    async def lane(self, lane: str) -> LaneView | None:
        """Return one lane."""
        return await self._call("lane", (), lambda: self._insight.lane(lane))

    async def lanes(self, *, show: LaneShow = LaneShow.ALL, limit: int, after: str = "") -> LaneSlice:
        """List lanes."""
        return await self._call("lanes", (), lambda: self._insight.lanes(show=show, limit=limit, after=after))

    async def counts(self) -> JobCounts:
        """Count jobs."""
        return await self._call("counts", (), self._insight.counts)

    async def workers(self, session: str | None = None, *, limit: int) -> Sequence[WorkerStatus]:
        """List live workers."""
        return await self._call("workers", (), lambda: self._insight.workers(session, limit=limit))

    async def fetched(self, session: str, *, limit: int) -> Sequence[int]:
        """Return the jobs that a session has fetched."""
        return await self._call("fetched", (), lambda: self._insight.fetched(session, limit=limit))

    async def limits(self, key: str | None = None, *, limit: int, after: str = "") -> Sequence[JobLimitView]:
        """List the limits of jobs."""
        return await self._call("limits", (), lambda: self._insight.limits(key, limit=limit, after=after))

    async def limit_users(self, key: str, *, limit: int) -> JobLimitUsers:
        """Return the jobs that hold a limit and those that wait for it."""
        return await self._call("limit_users", (), lambda: self._insight.limit_users(key, limit=limit))

    async def activity(self, width: float, spans: int, *, since: int = 0) -> Changes:
        """Count accepted and ended jobs."""
        return await self._call("activity", (), lambda: self._insight.activity(width, spans, since=since))
