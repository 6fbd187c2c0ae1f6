"""Rows and pages of jobs, queues, workers and lanes; ``views`` describes what all answers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from interlock.explanation import Explanation
    from interlock.insight.pipelines import RunRow
    from interlock.insight.views import LockRow, Seen
    from interlock.ports.events import EventView
    from interlock.ports.job_logs import Progress
    from interlock.ports.job_views import Attempt, JobView, LaneView, QueueView, WorkerView
    from interlock.ports.jobs import JobState

__all__ = [
    "JobLog",
    "JobPage",
    "JobRow",
    "LanePage",
    "LaneRow",
    "LogRow",
    "Moment",
    "QueueRow",
    "WorkerPage",
    "WorkerRow",
]


class JobRow(NamedTuple):
    """One job of a list."""

    job: JobView
    """Without arguments, result and attempts."""
    reason: str
    """A :class:`interlock.jobs.Reason`."""
    why: str
    """What it waits for, where it runs or how it ended, in one line. Empty for jobs that are done."""
    progress: Progress | None = None
    """How far its handler has come, while the job is at a worker."""


class LogRow(NamedTuple):
    """One line of a job's log."""

    number: int
    """From 1, across all attempts. A gap between two numbers means that the lines between them were dropped."""
    at: float
    level: str
    """``debug``, ``info``, ``warning``, ``error`` or ``critical``."""
    text: str
    attempt: int
    fence: int
    """The fetch that wrote it: after a crash or a snooze, the next fetch has the same attempt number."""


class JobLog(NamedTuple):
    """A part of a job's log, and how the job stood when it was read."""

    id: int
    state: JobState
    progress: Progress | None
    """Of the current fetch, or the last one."""
    lines: int
    """How many lines there were: the number of the last one."""
    dropped: int
    """How many of them were dropped."""
    rows: tuple[LogRow, ...]
    more: bool
    """Whether there are lines after these."""
    seen_at: float


class Moment(NamedTuple):
    """A past or future moment of a job."""

    at: float
    kind: str
    """``enqueued``, ``attempt``, ``fetched``, ``running``, ``due``, or the job's last state."""
    what: str
    """In a few words."""
    took: float | None
    """Seconds that it took, or has taken so far."""
    worker: WorkerView | None
    attempt: Attempt | None
    """With its error and traceback, if it was an attempt that ended."""


class JobPage(NamedTuple):
    """One job in detail."""

    job: JobView
    """With arguments, result and attempts."""
    reason: str
    why: str
    explanation: Explanation
    event: EventView | None
    """The event that caused it, without its payload."""
    ahead: tuple[JobRow, ...]
    """The jobs directly before it in its lane, in order; the first one is always the head of the lane."""
    behind: tuple[JobRow, ...]
    """The jobs directly behind it, in order."""
    waits: tuple[LockRow, ...]
    """The locks that its handler waits for."""
    timeline: tuple[Moment, ...]
    log: JobLog
    """The last lines of its log, and its progress."""
    seen: tuple[Seen, ...]
    run: RunRow | None = None
    """The run of a pipeline that it is."""


class QueueRow(NamedTuple):
    """One queue."""

    queue: QueueView
    why: str
    """Its problem: paused, no worker, or jobs that have waited for long. Empty for none."""


class QueuePage(NamedTuple):
    """One queue in detail. A queue that is not in use has no ``queue``, and an explanation that says so."""

    name: str
    queue: QueueView | None
    reason: str
    why: str
    explanation: Explanation
    workers: tuple[WorkerRow, ...]
    """The live workers that serve it."""
    jobs: tuple[JobRow, ...]
    """Unfinished jobs, newest first."""
    seen: tuple[Seen, ...]


class WorkerRow(NamedTuple):
    """One live worker."""

    worker: WorkerView
    queues: tuple[str, ...]
    names: tuple[str, ...]
    """The jobs that it knows."""
    runners: int
    """How many jobs it runs at once at most."""
    fetched: int
    """How many jobs it has fetched that have not started."""
    running: int
    since: float
    """When its session began."""
    expires_at: float
    """When its session ends unless it is renewed."""
    blocked_since: float | None
    """Since when the event loop of its process has been blocked; None while it runs."""
    blocked_by: str
    """What blocks it: the job, and where its handler is."""
    reads: tuple[tuple[str, str, str], ...]
    """For each job that it knows: the name, the version of the program, and the fingerprint of the arguments."""
    queue_runners: Mapping[str, int]
    """How many jobs of each queue it runs at once; empty if every queue may use all runners."""


class WorkerPage(NamedTuple):
    """One worker with the jobs that it has."""

    row: WorkerRow
    jobs: tuple[JobRow, ...]
    seen: tuple[Seen, ...]


class LaneRow(NamedTuple):
    """One lane of a list."""

    lane: LaneView
    reason: str
    why: str
    """Why it does not continue, or where its head is running."""


class LanePage(NamedTuple):
    """One lane in detail. A lane that is not in use has no ``lane``, no jobs, and an explanation that says so."""

    name: str
    lane: LaneView | None
    reason: str
    why: str
    explanation: Explanation
    jobs: tuple[JobRow, ...]
    """Its first jobs, in order."""
    ended: tuple[JobRow, ...]
    """The jobs that ended most recently, newest first."""
    seen: tuple[Seen, ...]
