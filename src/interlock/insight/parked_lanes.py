"""Look up the failure that parked a lane, and what holds the lane of a job that did not end well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from interlock.ports.insight import JobInsight
    from interlock.ports.job_views import JobSituation, JobView, LaneView

__all__ = ["failure_of", "with_its_lane"]

_MAX_LOOKED_AT = 20
_AT_ONCE = 1.0
_RETRIED_BY_HAND = (JobState.FAILED, JobState.QUARANTINED, JobState.DISCARDED, JobState.CANCELLED)


async def with_its_lane(jobs: JobInsight, situation: JobSituation) -> JobSituation:
    """Add to the situation of a job that did not end well what holds its lane: a retry would wait for that."""
    job = situation.job
    if job.state not in _RETRIED_BY_HAND or not job.lane:
        return situation
    view = await jobs.lane(job.lane)
    if view is None:
        return situation
    return situation._replace(
        held_by=view.held_by,
        held_reason=view.held_reason,
        held_since=view.held_since,
        parked_since=view.parked_since,
        parked_reason=view.parked_reason,
    )


async def failure_of(jobs: JobInsight, lane: str, held: LaneView | JobSituation | None) -> JobView | None:
    """Find the job whose failure parked the lane; None if the lane is not parked, or the job is not kept as failed."""
    if held is None or held.parked_since is None:
        return None
    since, wanted = held.parked_since, JobFilter((JobState.FAILED, JobState.QUARANTINED), lane=lane)
    found = await jobs.jobs(wanted, limit=_MAX_LOOKED_AT)
    ended = {
        abs(view.finished_at - since): view
        for view in (situation.job for situation in found.situations)
        if view.finished_at is not None and view.error == held.parked_reason
    }
    return ended[min(ended)] if ended and min(ended) < _AT_ONCE else None
