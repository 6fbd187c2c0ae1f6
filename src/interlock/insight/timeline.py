"""The timeline of a job: what happened, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.insight.job_rows import Moment
from interlock.ports.jobs import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.ports.job_views import JobView

__all__ = ["timeline"]

_ENDS = {
    "done": "done",
    "failed": "failed permanently",
    "retry": "failed, to be retried",
    "snoozed": "snoozed",
    "discarded": "discarded",
    "cancelled": "cancelled",
    "parked": "set aside",
    "crashed": "ended when its worker died",
    "unreadable": "could not be read by this version of its worker",
    "interrupted": "was interrupted when its worker shut down",
}
_WITHOUT_ATTEMPT = (JobState.CANCELLED, JobState.SUPERSEDED, JobState.QUARANTINED, JobState.EXPIRED)
"""Ends of a job that no attempt records, or not the last one."""


def timeline(job: JobView) -> tuple[Moment, ...]:
    """From its acceptance to its end, or to the next time that it is due."""
    return tuple(_moments(job))


def _moments(job: JobView) -> Iterator[Moment]:
    yield Moment(job.enqueued_at, "enqueued", "enqueued", None, None, None)
    for attempt in job.attempts:
        error = f": {attempt.error}" if attempt.error and attempt.outcome != "crashed" else ""
        what = f"attempt {attempt.number} {_ENDS.get(attempt.outcome, attempt.outcome)}{error}"
        yield Moment(
            attempt.started_at, "attempt", what, attempt.ended_at - attempt.started_at, attempt.worker, attempt
        )
    if job.state is JobState.RUNNING and job.fetched_at is not None:
        took = job.seen_at - job.fetched_at
        yield Moment(job.fetched_at, "running", f"attempt {job.attempt} runs", took, job.worker, None)
    elif job.state is JobState.FETCHED and job.fetched_at is not None:
        yield Moment(job.fetched_at, "fetched", "fetched, and not started yet", None, job.worker, None)
    elif job.state is JobState.SCHEDULED:
        yield Moment(job.due_at, "due", "due", None, None, None)
    if job.finished_at is not None and job.state in _WITHOUT_ATTEMPT:
        yield Moment(job.finished_at, str(job.state), str(job.state), None, None, None)
