"""Why a job or a lane stands where it does: one word for programs, and a few for a row of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.explanation import brief, counted, ordinal, span
from interlock.limits.explain import figure
from interlock.ports.jobs import JobState
from interlock.reasons import Reason

if TYPE_CHECKING:
    from interlock.explanation import Explanation
    from interlock.ports.job_views import JobSituation, JobView, LaneView, RowLock, RunningSuspects, WorkerView

__all__ = ["blocking", "how_many", "named", "where", "why_job", "why_lane"]

_MAX_HOLDERS = 20
"""As many as an situation names."""


def why_job(situation: JobSituation, reason: Reason, head: str = "") -> str:
    """The short of it; ``head`` is that of the job that its lane is at. Empty for a job that is done."""
    return brief(_why(situation, reason, head))


def why_lane(view: LaneView, head: Explanation[Reason] | None) -> str:
    """The short of it; ``head`` explains the job that the lane is at."""
    if view.held_since is not None or view.parked_since is not None:
        return brief(_hold(view))
    if head is None or view.head is None:
        return ""
    return brief(f"job {view.head} {head.why}" if head.why else f"job {view.head} is {view.state}")


def how_many(situation: JobSituation) -> str:
    """How many are before it, as far as they were counted."""
    return f"{situation.ahead:,} or more" if situation.more_ahead else counted(situation.ahead)


def named(jobs: tuple[int, ...], total: int) -> str:
    """Some jobs, as far as they are to be named."""
    listed = ", ".join(map(str, jobs))
    return f"{'job' if total == 1 else 'jobs'} {listed}{f' and {total - len(jobs)} more' if total > len(jobs) else ''}"


def blocking(situation: JobSituation) -> list[RunningSuspects]:
    """Suspects that run and that a suspect must not share a process with."""
    return [] if situation.suspicion is None else [one for one in situation.suspicion.running if not one.same_half]


def where(worker: WorkerView | None) -> str:
    """A worker, as short as it can be found."""
    return "a worker" if worker is None else f"{worker.program}@{worker.host}:{worker.pid}"


def _why(situation: JobSituation, reason: Reason, head: str) -> str:
    job = situation.job
    match reason:
        case Reason.READY:
            ready = f"has been ready for {span(job.seen_at - job.due_at)}"
            if job.state is JobState.SCHEDULED:  # its place among the others is not known yet
                return ready
            if situation.suspicion is not None:
                return f"{ready}, a suspect of a crash"
            return f"{ready} and {'is the next' if situation.ahead == 0 else f'has {how_many(situation)} before it'}"
        case Reason.SUSPECT:
            first = blocking(situation)[0]
            return f"is a suspect of a crash, waits for {named(first.jobs, first.total)} in {where(first.worker)}"
        case Reason.ROW_LOCKED:
            return f"is ready, but {_locker(situation.row_lock)} has locked a row of it"
        case Reason.NO_WORKER:
            return f"is ready, but no worker serves queue {job.queue!r}"
        case Reason.UNKNOWN_NAME:
            return f"is ready, but no worker of queue {job.queue!r} knows {job.name!r}"
        case Reason.DELAYED:
            return f"is due in {span(job.due_at - job.seen_at)}"
        case Reason.TO_BE_RETRIED:
            return f"failed in attempt {job.attempt}, next try in {span(job.due_at - job.seen_at)}: {_error(job)}"
        case Reason.SNOOZED:
            return f"was snoozed, is due again in {span(job.due_at - job.seen_at)}{_said(_last(job))}"
        case Reason.UNREADABLE:
            return f"waits for a worker of a version that can read its arguments{_said(_last(job))}"
        case Reason.BEHIND:
            return _behind(situation, head)
        case Reason.BLOCKED:
            return _blocked(situation)
        case Reason.LIMIT | Reason.PACE:
            return _in_line(situation)
        case Reason.LANE_HELD | Reason.LANE_PARKED:
            return f"is next in its lane, which {_hold(situation)}"
        case Reason.QUEUE_PAUSED:
            pause = situation.pause
            return f"is in queue {job.queue!r}, which is paused{f' by {pause.by}: {pause.reason}' if pause else ''}"
        case Reason.PARKED:
            return f"was set aside until a person acts{_said(job.error)}"
        case Reason.FETCHED:
            ago = "" if job.fetched_at is None else f" {span(job.seen_at - job.fetched_at)} ago"
            return f"was fetched{ago} by {where(job.worker)} and has not started"
        case Reason.RUNNING | Reason.LOCK:
            lasted = "" if job.fetched_at is None else f" for {span(job.seen_at - job.fetched_at)}"
            return f"runs{lasted} in {where(job.worker)}"
        case Reason.LOOP_BLOCKED:
            if not job.state.at_worker:
                return "is ready, but the event loops of its workers are blocked"
            does = "runs in" if job.state is JobState.RUNNING else "was fetched by"
            return f"{does} {where(job.worker)}, whose event loop is blocked"
        case Reason.WORKER_GONE:
            return f"was given to {where(job.worker)}, which is gone or silent"
        case Reason.SUPERSEDED:
            return f"gave way to job {job.superseded_by} of its lane"
        case Reason.QUARANTINED:
            return f"{job.crashes} workers died while it was their only suspect"
        case Reason.FAILED | Reason.DISCARDED | Reason.CANCELLED | Reason.EXPIRED:
            return _error(job)
        case _:
            return ""


def _locker(lock: RowLock | None) -> str:
    if lock is None:
        return "another transaction"
    return f"backend {lock.pid}{f' ({lock.program})' if lock.program else ''}"


def _behind(situation: JobSituation, head: str) -> str:
    behind = f"is behind {how_many(situation)} in its lane"
    if situation.lane_head is None:
        return behind
    return f"{behind}: job {situation.lane_head} {head or f'is {situation.lane_head_state}'}"


def _blocked(situation: JobSituation) -> str:
    if not situation.needs:
        return "waits for other jobs"
    first = situation.needs[0]
    more = f" and {situation.needs_count - 1} more" if situation.needs_count > 1 else ""
    return f"waits for job {first.id}{f' ({first.state})' if first.state else ''}{more}"


def _in_line(situation: JobSituation) -> str:
    job, key = situation.job, situation.waits_for
    use = next((use for use in job.uses if use.key == key), None)
    place = "first in line" if situation.ahead == 0 else f"{ordinal(situation.ahead + 1)} in line"
    if situation.more_ahead:
        place = f"{how_many(situation)} before it in line"
    if situation.room_at is not None and situation.room_at > job.seen_at:
        rate = "" if use is None else f" ({figure(use.max_count, use.per)})"
        return f"waits for limit {key!r}{rate}, room in {span(situation.room_at - job.seen_at)}, {place}"
    taken = ""
    if use is not None:
        count = use.max_count if len(situation.holders) >= _MAX_HOLDERS else len(situation.holders) + situation.reserved
        taken = f" ({count} of {use.max_count})"
    return f"waits for limit {key!r}{taken}, {place}"


def _hold(lane: LaneView | JobSituation) -> str:
    if lane.held_since is not None:
        return f"is held by {lane.held_by}: {lane.held_reason}"
    return f"was parked after a failure: {lane.parked_reason}"


def _error(job: JobView) -> str:
    return job.error or ("" if job.state is JobState.CANCELLED else "it gave no reason")


def _last(job: JobView) -> str:
    return job.attempts[-1].error if job.attempts else ""


def _said(error: str) -> str:
    return f": {error}" if error else ""
