"""Jobs, queues, workers and lanes as Insight answers with them; what holds for all answers is said in ``views``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from interlock.explanation import Explanation
    from interlock.insight.views import LockRow, Seen
    from interlock.ports.events import EventView
    from interlock.ports.job_views import Attempt, JobView, LaneView, QueueView, WorkerView

__all__ = ["JobPage", "JobRow", "LanePage", "LaneRow", "Moment", "QueueRow", "WorkerPage", "WorkerRow"]


class JobRow(NamedTuple):
    """One job of a list."""

    job: JobView
    """Without arguments, result and attempts."""
    reason: str
    """A :class:`interlock.jobs.Reason`."""
    why: str
    """What it waits for, where it runs or how it ended, short enough for a row of a table. Empty for what is done."""


class Moment(NamedTuple):
    """Something that happened to a job, or will."""

    at: float
    kind: str
    """``enqueued``, ``attempt``, ``running``, ``due``, or the job's last state."""
    what: str
    """In a few words."""
    took: float | None
    """Seconds that it took, or has taken so far."""
    worker: WorkerView | None
    attempt: Attempt | None
    """With its error and traceback, if it was an attempt that ended."""


class JobPage(NamedTuple):
    """All about one job."""

    job: JobView
    """With arguments, result and attempts."""
    reason: str
    why: str
    explanation: Explanation
    event: EventView | None
    """The event that caused it, in short."""
    ahead: tuple[JobRow, ...]
    """The jobs directly before it in its lane, in order; the one that the lane is at is always the first of them."""
    behind: tuple[JobRow, ...]
    """Those directly behind it, in order."""
    waits: tuple[LockRow, ...]
    """The locks that its handler waits for."""
    timeline: tuple[Moment, ...]
    seen: tuple[Seen, ...]


class QueueRow(NamedTuple):
    """One queue."""

    queue: QueueView
    why: str
    """What is wrong with it: nobody works on it, or work waits for long. Empty if nothing is."""


class WorkerRow(NamedTuple):
    """One live worker."""

    worker: WorkerView
    queues: tuple[str, ...]
    names: tuple[str, ...]
    """The jobs that it knows."""
    runners: int
    """How many it runs at once at most."""
    running: int
    """How many jobs it has fetched: at work, or about to be."""
    since: float
    """When its session began."""
    expires_at: float
    """When its session ends unless it is renewed."""
    blocked_since: float | None
    """Since when the event loop of its process has been blocked; None while it runs."""
    blocked_by: str
    """What blocks it: the job, and where its handler is."""
    reads: tuple[tuple[str, str, str], ...]
    """Of each job that it knows the name, the version of the program, and the fingerprint of what the handler takes."""


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
    """Why it does not go on, or where its head runs."""


class LanePage(NamedTuple):
    """All about one lane. One that nobody uses has no ``lane``, no jobs, and an explanation that says so."""

    name: str
    lane: LaneView | None
    reason: str
    why: str
    explanation: Explanation
    jobs: tuple[JobRow, ...]
    """Its first jobs, in order."""
    ended: tuple[JobRow, ...]
    """Its last jobs that ended, the newest first."""
    seen: tuple[Seen, ...]
