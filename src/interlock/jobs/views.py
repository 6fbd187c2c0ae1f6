"""Jobs, lanes and queues as a program sees them. Times are aware and in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from interlock.clock import as_optional_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from interlock.ports import job_views as port
    from interlock.ports.job_logs import JobLogStatus, LogEntry
    from interlock.ports.job_views import WorkerView
    from interlock.ports.jobs import JobState
    from interlock.ports.limits import Use

__all__ = [
    "Attempt",
    "JobView",
    "LaneView",
    "LogLine",
    "Progress",
    "QueueView",
    "job_view",
    "lane_view",
    "log_line",
    "progress_view",
    "queue_view",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One fetch of a job that ended other than by being returned."""

    number: int
    outcome: str
    """An ``Outcome``, ``crashed``, or ``interrupted`` by the end of a process that was told to end."""
    started_at: datetime
    ended_at: datetime
    worker: WorkerView
    fence: int
    error: str
    trace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a handler has come."""

    fraction: float
    """0 to 1."""
    message: str
    """The handler's words about it; empty for none."""
    at: datetime
    """When it was reported, by the worker's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a job's log."""

    number: int
    """From 1, across all attempts. A gap between two numbers means that the lines between them were dropped."""
    at: datetime
    """When it was written, by the worker's clock."""
    level: int
    """As in ``logging``."""
    text: str
    attempt: int
    fence: int
    """The fetch that wrote it: after a crash or a snooze, the next fetch has the same attempt number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job."""

    id: int
    name: str
    queue: str
    lane: str
    """Empty for none."""
    priority: int
    state: JobState
    attempt: int
    """The number of attempts, including a running one."""
    crashes: int
    """How many workers died while this job was their only suspect."""
    enqueued_at: datetime
    due_at: datetime
    fetched_at: datetime | None
    finished_at: datetime | None
    worker: WorkerView | None
    """The worker that runs it, or ran it last."""
    fence: int
    error: str
    """The last failure, or why it was parked, cancelled or discarded."""
    superseded_by: int | None
    uses: tuple[Use, ...]
    """Its limits."""
    arguments: str
    """JSON; empty in lists."""
    options: str
    result: str | None
    """JSON; None also once it is no longer kept; see ``result_kept_until``. None in lists."""
    result_kept_until: datetime | None
    attempts: tuple[Attempt, ...]
    """Empty in lists."""
    progress: Progress | None
    """Of its current fetch, or its last one. In lists only of jobs at a worker."""
    cause: str
    """What enqueued it: ``event:7``, ``job:12`` (the handler of that job), ``end:12`` (as a hook after its end) or
    ``schedule:name``; followed by ``;event:7`` if it goes back to an event. Empty for a program outside of handlers."""
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """One lane that has jobs, or is held or parked."""

    lane: str
    state: JobState
    """The state of its head; ``held`` also if it has no job."""
    head: int | None
    """The job that the lane is at."""
    name: str
    """The name of that job."""
    depth: int
    """How many jobs, counted up to 10,000, in lists up to 1,000."""
    since: datetime
    """Since when it has been held or parked; otherwise when its head was due."""
    worker: WorkerView | None
    held_by: str
    held_reason: str
    held_since: datetime | None
    """When a person held it."""
    parked_since: datetime | None
    parked_reason: str
    """The failure that parked it. A lane may be held and parked."""
    seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue, with the number of its jobs in each state, each counted up to 10,000."""

    queue: str
    ready: int
    behind: int
    scheduled: int
    waiting: int
    fetched: int
    """At a worker, and not started."""
    running: int
    held: int
    """The heads of lanes that are held or were parked after a failure."""
    parked: int
    blocked: int
    """Jobs that wait for others to end."""
    oldest_ready_at: datetime | None
    next_due_at: datetime | None
    """When the first scheduled job is due; in the past if no worker was there to take it."""
    workers: int
    runners: int
    """How many jobs of the queue its live workers run at once."""
    paused_by: str
    paused_reason: str
    paused_since: datetime | None
    """When a person paused it."""


def job_view(row: port.JobView, status: JobLogStatus | None = None) -> JobView:
    """The view of a job, from what the store returned about it and its log."""
    data = _with_times(
        row._asdict(), "enqueued_at", "due_at", "fetched_at", "finished_at", "result_kept_until", "seen_at"
    )
    data["attempts"] = tuple(
        Attempt(**_with_times(attempt._asdict(), "started_at", "ended_at")) for attempt in row.attempts
    )
    return JobView(**data, progress=progress_view(row, status))


def progress_view(row: port.JobView, status: JobLogStatus | None) -> Progress | None:
    """The progress of a job; None if its current fetch, or else its last one, has reported none."""
    found = None if status is None or status.fence != row.fence else status.progress
    return None if found is None else Progress(**_with_times(found._asdict(), "at"))


def log_line(entry: LogEntry) -> LogLine:
    """The view of a line, from what the store returned."""
    return LogLine(**_with_times(entry._asdict(), "at"))


def lane_view(row: port.LaneView) -> LaneView:
    """The view of a lane, from what the store returned."""
    return LaneView(**_with_times(row._asdict(), "since", "held_since", "parked_since", "seen_at"))


def queue_view(row: port.QueueView) -> QueueView:
    """The view of a queue, from what the store returned."""
    return QueueView(**_with_times(row._asdict(), "oldest_ready_at", "next_due_at", "paused_since"))


def _with_times(data: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        data[name] = as_optional_datetime(data[name])
    return data
