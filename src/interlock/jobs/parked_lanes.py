"""A lane that was parked after a failure, and the job that failed: looked up for who asks about one job or lane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.ports.job_views import JobFilter
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from interlock.ports.job_views import JobSituation, JobView, LaneView
    from interlock.ports.jobs import JobStore

__all__ = ["failure_of", "with_its_lane"]

_MAX_LOOKED_AT = 20
_AT_ONCE = 1.0
_RETRIED_BY_HAND = (JobState.FAILED, JobState.QUARANTINED, JobState.DISCARDED, JobState.CANCELLED)


async def with_its_lane(jobs: JobStore, situation: JobSituation) -> JobSituation:
    """The situation of a job that ended otherwise than well, with what holds its lane: a retry would wait for that."""
    job = situation.job
    if job.state not in _RETRIED_BY_HAND or not job.lane:
        return situation
    for view in await jobs.lanes(job.lane, limit=1):
        return situation._replace(
            held_by=view.held_by,
            held_reason=view.held_reason,
            held_since=view.held_since,
            parked_since=view.parked_since,
            parked_reason=view.parked_reason,
        )
    return situation


async def failure_of(jobs: JobStore, lane: str, held: LaneView | JobSituation | None) -> JobView | None:
    """The job whose failure parked the lane; None if it is not parked, or the job not there or not failed any more."""
    if held is None or held.parked_since is None:
        return None
    since, wanted = held.parked_since, JobFilter((JobState.FAILED, JobState.QUARANTINED), lane=lane)
    ended = {
        abs(view.finished_at - since): view
        for view in await jobs.list(wanted, limit=_MAX_LOOKED_AT)
        if view.finished_at is not None and view.error == held.parked_reason
    }
    return ended[min(ended)] if ended and min(ended) < _AT_ONCE else None
