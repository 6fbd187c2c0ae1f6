"""The read side of jobs: everything that people and programs ask about jobs, lanes, queues and workers.

``JobStore`` writes and ``JobInsight`` reads. Every query takes a bounded time: counts end at ``MAX_COUNTED``, and a
query for something rare stops after a bounded number of rows and says where to continue. Queries change nothing and
wait for no lock. Each method reads one snapshot; ``Store.snapshot`` makes several methods read the same one.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.job_logs import JobLogStatus, LogSlice
    from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, QueueView, RowLock, WorkerView
    from interlock.ports.jobs import HandlerVersion, JobState

__all__ = [
    "MAX_COUNTED",
    "MAX_WORKERS",
    "Change",
    "Changes",
    "JobCounts",
    "JobInsight",
    "JobLimitUse",
    "JobLimitUsers",
    "JobLimitView",
    "JobSlice",
    "LaneShow",
    "LaneSlice",
    "Neighbours",
    "Numbers",
    "WorkerStatus",
]

MAX_COUNTED = 10_000
"""Counts end here: this value means "or more"."""


class LaneShow(StrEnum):
    """Which lanes to list."""

    ALL = ""
    RUNNING = "running"
    FETCHED = "fetched"
    """Lanes whose head is at a worker and has not started."""
    WAITING = "waiting"
    """Lanes with jobs of which none is at a worker, and that are not held."""
    HELD = "held"
    """By a person."""
    PARKED = "parked"
    """After a failure."""


class JobSlice(NamedTuple):
    """Jobs by ID, the largest first."""

    situations: Sequence[JobSituation]
    """Their jobs without arguments and results, and only with the last attempt."""
    more: int | None
    """Continue with IDs smaller than this; None at the end."""


class Numbers(NamedTuple):
    """Job IDs, the largest first; ``more`` as in :class:`JobSlice`."""

    ids: Sequence[int]
    more: int | None


class Neighbours(NamedTuple):
    """The jobs around one in its lane, in order."""

    ahead: Sequence[int]
    """Directly before it; the first one is always the head of the lane."""
    behind: Sequence[int]


class LaneSlice(NamedTuple):
    """Lanes by name."""

    lanes: Sequence[LaneView]
    """Their depths are counted up to 1,000."""
    more: str | None
    """Continue with lanes after this one; None at the end."""


MAX_WORKERS = 100
"""How many live workers are read to explain a job or a lane."""


class WorkerStatus(NamedTuple):
    """A live worker."""

    worker: WorkerView
    queues: tuple[str, ...]
    names: tuple[str, ...]
    runners: int
    fetched: int
    """How many jobs it has fetched that have not started."""
    running: int
    """How many of its jobs have started."""
    since: float
    expires_at: float
    blocked_since: float | None = None
    """Since when the event loop of its process has been blocked; None while it runs."""
    blocked_by: str = ""
    reads: tuple[HandlerVersion, ...] = ()
    """The versions of the handlers that it has."""
    queue_runners: Mapping[str, int] = MappingProxyType({})
    """How many jobs of each queue it runs at once; empty if every queue may use all runners."""


class JobCounts(NamedTuple):
    """Counts of jobs by state."""

    states: Mapping[JobState, int]
    queues: Sequence[QueueView]
    """``oldest_ready_at`` considers the first hundred of each class in fetch order."""
    names: Mapping[str, frozenset[str]]
    """The names of ready jobs by queue, as far as they were read."""
    lanes_running: int
    lanes_fetched: int
    """Lanes whose head is at a worker and has not started."""
    lanes_held: int
    lanes_parked: int
    limits_used: int
    limits_full: int
    limits_waiting: int
    """Jobs that wait for any limit."""
    orphans: int
    """Jobs of ended sessions that are not rescued yet."""
    seen_at: float


class JobLimitView(NamedTuple):
    """A limit on jobs."""

    key: str
    max_count: int
    """The smallest figure of its jobs."""
    per: float
    """Seconds; 0 for slots."""
    taken: int
    """Slots: fetched jobs. Pace: starts that count."""
    waiting: int
    room_at: float | None
    """When its pace allows the next start, if known and jobs wait for it."""
    seen_at: float


class JobLimitUse(NamedTuple):
    """A job that occupies a limit, or waits for it."""

    id: int
    name: str
    since: float
    """When it was fetched or started; if it waits: when it was due."""
    until: float | None
    """Pace: until when the start counts."""
    worker: WorkerView | None


class JobLimitUsers(NamedTuple):
    """The jobs that occupy a limit, oldest first, and its waiters in order."""

    holders: Sequence[JobLimitUse]
    waiters: Sequence[JobLimitUse]


class Change(NamedTuple):
    """How many jobs were accepted or ended in one span of time."""

    span: int
    """The number of the span: time divided by its width, rounded down."""
    accepted: int
    done: int
    failed: int


class Changes(NamedTuple):
    """Activity by span; spans without any are omitted."""

    changes: Sequence[Change]
    seen_at: float


class JobInsight(Protocol):
    """Queries about the jobs of one store and namespace."""

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """One job with its arguments, result and attempts, unfinished or kept; None if unknown."""
        ...

    async def log_statuses(self, ids: Sequence[int]) -> Mapping[int, JobLogStatus]:
        """The progress of these jobs and the length of their logs; jobs that have reported nothing are omitted."""
        ...

    async def log(self, id: int, *, after: int = 0, limit: int) -> LogSlice:  # noqa: A002
        """The kept lines of a job's log with numbers above ``after``, at most ``limit``. Empty for an unknown job."""
        ...

    async def jobs(self, filter: JobFilter, *, limit: int, before: int | None = None) -> JobSlice:  # noqa: A002
        """Jobs with IDs below ``before``, each with its situation; at most ``limit``."""
        ...

    async def numbers(self, filter: JobFilter, *, limit: int, before: int | None = None) -> Numbers:  # noqa: A002
        """Only their IDs."""
        ...

    async def situations(self, ids: Sequence[int]) -> Sequence[JobSituation]:
        """The situations of these jobs, in this order; unknown jobs are omitted.

        ``ahead`` is counted up to 1,000, for many jobs up to 100, and for ready jobs only if a worker serves them.
        """
        ...

    async def row_locks(self, ids: Sequence[int]) -> Mapping[int, RowLock]:
        """Transactions that have lasted for a second or longer and keep rows of these jobs or of their lanes locked.

        A fetch skips such rows, and an acknowledgement waits for them. Unlike other queries, this one reads the current
        state, not a snapshot. A row with several lockers (``for share``) is not recognized. Always empty in a store
        whose rows cannot be locked one by one.
        """
        ...

    async def neighbours(self, id: int, *, limit: int) -> Neighbours:  # noqa: A002
        """The jobs next to an unfinished one in its lane, at most ``limit`` on each side."""
        ...

    async def lane_jobs(self, lane: str, *, limit: int) -> Sequence[int]:
        """The first unfinished jobs of a lane in order. Scheduled jobs without a position come last."""
        ...

    async def lane(self, lane: str) -> LaneView | None:
        """One lane, its depth counted up to ``MAX_COUNTED``; None if it is empty and neither held nor parked."""
        ...

    async def lanes(self, *, show: LaneShow = LaneShow.ALL, limit: int, after: str = "") -> LaneSlice:
        """Lanes that have jobs, or are held or parked, by name, after ``after``."""
        ...

    async def counts(self) -> JobCounts:
        """Counts of jobs, as one snapshot."""
        ...

    async def workers(self, session: str | None = None, *, limit: int) -> Sequence[WorkerStatus]:
        """Live workers (or a single one), in the order in which they started."""
        ...

    async def fetched(self, session: str, *, limit: int) -> Sequence[int]:
        """Jobs that a session has fetched."""
        ...

    async def limits(self, key: str | None = None, *, limit: int, after: str = "") -> Sequence[JobLimitView]:
        """Limits that jobs hold or wait for (or a single one), by key, after ``after``."""
        ...

    async def limit_users(self, key: str, *, limit: int) -> JobLimitUsers:
        """The jobs that occupy a limit, and its waiters; at most ``limit`` of each."""
        ...

    async def activity(self, width: float, spans: int, *, since: int = 0) -> Changes:
        """Jobs accepted and ended in the last ``spans`` spans of ``width`` seconds, including the current one, from
        span number ``since`` on. Of unfinished jobs, only the 100,000 with the largest IDs are read."""
        ...
