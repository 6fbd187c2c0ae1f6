"""Lists of jobs and lanes with as many entries as asked for, from the pages of the read side."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.ports.insight import JobInsight
    from interlock.ports.job_views import JobFilter, JobView, LaneView

__all__ = ["list_jobs", "list_lanes"]


async def list_jobs(insight: JobInsight, wanted: JobFilter, limit: int) -> list[JobView]:
    """Jobs that match, the largest ID first, without arguments, results and attempts."""
    views: list[JobView] = []
    before: int | None = None
    while len(views) < limit:
        part = await insight.jobs(wanted, limit=limit - len(views), before=before)
        views += [situation.job._replace(attempts=()) for situation in part.situations]
        before = part.more
        if before is None:
            break
    return views


async def list_lanes(insight: JobInsight, limit: int) -> list[LaneView]:
    """Lanes that have jobs, or are held or parked, by name."""
    views: list[LaneView] = []
    after: str | None = ""
    while after is not None and len(views) < limit:
        part = await insight.lanes(limit=limit - len(views), after=after)
        views += part.lanes
        after = part.more
    return views
