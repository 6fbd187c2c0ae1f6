"""What Insight asks of a store about jobs: many at once, in bounded time however many there are.

The jobs port answers exactly, one thing at a time; here counts end at ``MOST_COUNTED`` and a look for something rare
ends after a bounded number of things looked at and says where to go on. Looking changes nothing and waits for nobody.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock.ports.job_views import JobFilter, JobSituation, LaneView, QueueView, WorkerView
    from interlock.ports.jobs import HandlerVersion, JobState

__all__ = [
    "MOST_COUNTED",
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
    "WorkerStanding",
]

MOST_COUNTED = 10_000
"""Counts end here: so many means "or more"."""


class LaneShow(StrEnum):
    """Which lanes to list."""

    ALL = ""
    RUNNING = "running"
    WAITING = "waiting"
    """Those that have jobs of which none runs, and that nobody holds."""
    HELD = "held"
    """By a person."""
    PARKED = "parked"
    """After a failure."""


class JobSlice(NamedTuple):
    """Jobs by their numbers, the largest first."""

    situations: Sequence[JobSituation]
    """Their jobs in short: without arguments and result, and of the attempts only the last one."""
    more: int | None
    """Jobs of smaller numbers than this are still to be looked at; None if there are none."""


class Numbers(NamedTuple):
    """Numbers of jobs, the largest first; ``more`` as in :class:`JobSlice`."""

    ids: Sequence[int]
    more: int | None


class Neighbours(NamedTuple):
    """The jobs around one in its lane, in order."""

    ahead: Sequence[int]
    """Directly before it; the first is always the one that the lane is at."""
    behind: Sequence[int]


class LaneSlice(NamedTuple):
    """Lanes by name."""

    lanes: Sequence[LaneView]
    """Their depths are counted up to 1,000."""
    more: str | None
    """Lanes after this one are still to be looked at; None if there are none."""


MAX_WORKERS = 100
"""How many live workers are looked at where a job or a lane is explained."""


class WorkerStanding(NamedTuple):
    """A live worker."""

    worker: WorkerView
    queues: tuple[str, ...]
    names: tuple[str, ...]
    runners: int
    running: int
    """How many jobs it has claimed."""
    since: float
    expires_at: float
    blocked_since: float | None = None
    """Since when the event loop of its process has been blocked; None while it runs."""
    blocked_by: str = ""
    reads: tuple[HandlerVersion, ...] = ()
    """What it can read, of the jobs that it knows."""


class JobCounts(NamedTuple):
    """How many jobs stand how."""

    states: Mapping[JobState, int]
    queues: Sequence[QueueView]
    """``oldest_ready_at`` is that of the first hundred of each kind in the order in which they are claimed."""
    names: Mapping[str, frozenset[str]]
    """By queue, the names of ready jobs, as far as they were seen."""
    lanes_running: int
    lanes_held: int
    lanes_parked: int
    limits_used: int
    limits_full: int
    limits_waiting: int
    """Jobs in all lines together."""
    orphans: int
    """Jobs claimed by sessions that have ended and not rescued yet."""
    seen_at: float


class JobLimitView(NamedTuple):
    """A limit that jobs are under."""

    key: str
    most: int
    """The smallest figure that any of them knows."""
    per: float
    """Seconds; 0 for slots."""
    taken: int
    """Slots: claimed jobs. Pace: starts that count."""
    waiting: int
    room_at: float | None
    """When its pace lets the next one start, if that is known and jobs wait for it."""
    seen_at: float


class JobLimitUse(NamedTuple):
    """A job that has a limit's room, or waits for it."""

    id: int
    name: str
    since: float
    """Claimed, or started, at; waiting: since it was due."""
    until: float | None
    """Pace: until when the start counts."""
    worker: WorkerView | None


class JobLimitUsers(NamedTuple):
    """Who has a limit's room, the first come first, and who waits for it, in order."""

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
    """What came and went, by spans; those without any are left out."""

    changes: Sequence[Change]
    seen_at: float


class JobInsight(Protocol):
    """Looks at the jobs of one store and namespace."""

    async def jobs(self, filter: JobFilter, *, limit: int, before: int | None = None) -> JobSlice:  # noqa: A002
        """Jobs whose number is smaller than ``before``, with what decides about each; at most ``limit``."""
        ...

    async def numbers(self, filter: JobFilter, *, limit: int, before: int | None = None) -> Numbers:  # noqa: A002
        """Just the numbers of those."""
        ...

    async def situations(self, ids: Sequence[int]) -> Sequence[JobSituation]:
        """What decides about each of these jobs, in this order; those that are not known are left out.

        ``ahead`` is counted up to 1,000, of many jobs up to 100, and of ready jobs only where somebody works on them.
        """
        ...

    async def neighbours(self, id: int, *, most: int) -> Neighbours:  # noqa: A002
        """The jobs next to an unfinished one in its lane, at most so many on each side."""
        ...

    async def lane_jobs(self, lane: str, *, limit: int) -> Sequence[int]:
        """The first unfinished jobs of a lane in order. Those that wait for their time without a place come last."""
        ...

    async def lanes(self, *, show: LaneShow = LaneShow.ALL, limit: int, after: str = "") -> LaneSlice:
        """Lanes that are not empty or are held, by name, those after ``after``."""
        ...

    async def counts(self) -> JobCounts:
        """How many jobs stand how, as one snapshot."""
        ...

    async def workers(self, session: str | None = None, *, limit: int) -> Sequence[WorkerStanding]:
        """Live workers (or just the one), in the order in which they began."""
        ...

    async def fetched(self, session: str, *, limit: int) -> Sequence[int]:
        """Jobs that a session has claimed."""
        ...

    async def limits(self, key: str | None = None, *, limit: int, after: str = "") -> Sequence[JobLimitView]:
        """Limits that jobs hold or wait for (or just the one), by key, those after ``after``."""
        ...

    async def limit_users(self, key: str, *, limit: int) -> JobLimitUsers:
        """The jobs that have a limit's room, and those in its line; at most ``limit`` of each."""
        ...

    async def activity(self, width: float, spans: int, *, since: int = 0) -> Changes:
        """What was accepted and what ended in the last so many spans of ``width`` seconds, the one under way included,
        from the span of number ``since`` on. Of what is unfinished the last 100,000 by number are looked at."""
        ...
