"""The logs and the progress of jobs, for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.insight.job_rows import JobLog, LogRow
from interlock.log_levels import level_name

if TYPE_CHECKING:
    from interlock.insight.stores import Stores
    from interlock.ports.job_logs import JobLogStatus, Progress
    from interlock.ports.job_views import JobView

__all__ = ["job_log", "progress_of"]


def progress_of(job: JobView, status: JobLogStatus | None) -> Progress | None:
    """The progress of a job; None if its current fetch, or else its last one, has reported none."""
    return None if status is None or status.fence != job.fence else status.progress


async def job_log(stores: Stores, job: JobView, *, after: int | None, limit: int) -> JobLog:
    """Lines of a job's log after a number, or the last ones for None."""
    insight = stores.store.insight
    status = (await insight.log_statuses([job.id])).get(job.id)
    if status is None:
        return JobLog(job.id, job.state, None, 0, 0, (), more=False, seen_at=job.seen_at)
    found = await insight.log(job.id, after=max(0, status.lines - limit) if after is None else after, limit=limit)
    rows = tuple(
        LogRow(entry.number, entry.at, level_name(entry.level), entry.text, entry.attempt, entry.fence)
        for entry in found.entries
    )
    progress = progress_of(job, status)
    return JobLog(job.id, job.state, progress, status.lines, status.dropped, rows, found.more, job.seen_at)
