"""The answers of Insight: rows of lists and pages of single items, from one snapshot of a store.

Times are seconds since 1970 by the clock of the store; ``seen_at`` is the time of the snapshot. Counts
go up to a bound (``MAX_COUNTED``), so that a query costs the same however much there is: the bound means "or more".
Texts are as they were stored: escape them for display.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from interlock.explanation import Explanation
    from interlock.insight.job_rows import JobRow, QueueRow, WorkerRow
    from interlock.ports.claims import ClaimView
    from interlock.ports.events import EventView
    from interlock.ports.jobs import JobState

__all__ = [
    "MAX_COUNTED",
    "Activity",
    "Bucket",
    "ClaimPage",
    "ClaimRow",
    "EventPage",
    "EventRow",
    "LaneCounts",
    "LimitCounts",
    "LimitHolder",
    "LimitPage",
    "LimitRow",
    "LimitSetting",
    "LimitWaiter",
    "Listing",
    "LockCounts",
    "LockHolder",
    "LockPage",
    "LockRow",
    "LockWaiter",
    "Overview",
    "Problem",
    "Seen",
    "Who",
]

MAX_COUNTED = 10_000
"""Counts end here."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A part of a list, in order."""

    rows: tuple[T, ...]
    more: str | None
    """Where to continue: pass it as ``before`` (jobs, events) or ``after`` (all others). None at the end.

    A query for something rare stops after a bounded number of rows; then there are fewer rows than requested, or none,
    and ``more`` is still set.
    """
    seen_at: float

    def __iter__(self) -> Iterator[T]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)


class Seen(NamedTuple):
    """The store that was read, and when. Each store has its own snapshot."""

    store: str
    """The backend's name: sqlite, postgres, redis, memory."""
    parts: tuple[str, ...]
    """The concepts that were read there: jobs, events, limits, locks, claims."""
    at: float


class Who(NamedTuple):
    """A caller that holds or waits."""

    caller: str
    """Its name in the store: ``job:42:1f2e`` or ``host:pid:…/task``."""
    name: str
    """Its name for people: ``job 42 (report)``, or the caller."""
    job: int | None
    """Its job, if it is running in the app's own store."""
    session: str
    host: str
    pid: int
    program: str


# -- locks -------------------------------------------------------------------------------------------------------------


class LockHolder(NamedTuple):
    """The holder of a key."""

    who: Who
    fence: int
    since: float
    expires_at: float
    """Unless it is renewed."""


class LockWaiter(NamedTuple):
    """One position in a key's queue."""

    place: int
    """1 for the next."""
    who: Who
    since: float
    gives_up_at: float | None
    live: bool
    """Whether it still waits; False if its process ended or its wait timed out."""
    why: str


class LockRow(NamedTuple):
    """One key with a holder or waiters."""

    key: str
    holder: LockHolder | None
    waiters: tuple[LockWaiter, ...]
    """In order; in a list only the first few."""
    waiting: int
    """The total number."""
    free_since: float | None
    reason: str
    """A :class:`interlock.locks.Reason`."""
    why: str
    seen_at: float


class LockPage(NamedTuple):
    """One key in detail. The explanation says if it is not in use."""

    key: str
    lock: LockRow | None
    reason: str
    why: str
    explanation: Explanation
    seen: tuple[Seen, ...]


# -- limits ------------------------------------------------------------------------------------------------------------


class LimitSetting(NamedTuple):
    """A figure of a limit that a person set, instead of the one in the code."""

    name: str
    """The limit (``slots:containers``), for all of its keys, or one whole key."""
    figure: str
    by: str
    reason: str
    at: float


class LimitRow(NamedTuple):
    """One limit that is in use, by jobs, by reservations of ``app.limits``, or by both."""

    key: str
    counts: str
    """``jobs``, ``reservations`` or ``jobs and reservations``."""
    max_count: int
    per: float
    """Seconds of a pace; 0 for slots."""
    figure: str
    """``5 at once``, ``1 every 90 s``, ``100 in any 60 s``."""
    declared: str
    """The figure in the code, in the same form; differs if a person has set another one."""
    override: LimitSetting | None
    """The figure that a person set."""
    taken: int
    """Slots: how many are in use. Pace: how many starts count now."""
    jobs: int
    """How many of those are jobs."""
    reserved: int
    """How many of those are reservations."""
    waiting: int
    full: bool
    room_at: float | None
    """Pace without room: when the next start is possible."""
    reason: str
    """A :class:`interlock.limits.Reason`."""
    why: str
    """``5 of 5 at work, 3 wait``."""
    seen_at: float


class LimitHolder(NamedTuple):
    """A user of a slot, or a start that counts."""

    counts: str
    who: Who
    since: float | None
    until: float | None
    """Pace: until when its start counts."""


class LimitWaiter(NamedTuple):
    """One position in a limit's queue."""

    counts: str
    place: int
    who: Who
    """For a waiting job, only ``name`` and ``job`` are set: no process has it yet."""
    since: float
    at: float | None
    """When its turn comes, if known."""
    why: str


class LimitPage(NamedTuple):
    """One limit in detail: its users, and its waiters in order."""

    key: str
    rows: tuple[LimitRow, ...]
    """Empty if it is not in use, else one."""
    setting: LimitSetting | None
    """The figure that a person set, also if it is not in use."""
    holders: tuple[LimitHolder, ...]
    waiters: tuple[LimitWaiter, ...]
    reason: str
    why: str
    explanation: Explanation
    seen: tuple[Seen, ...]


# -- claims and events -------------------------------------------------------------------------------------------------


class ClaimRow(NamedTuple):
    """One claim of a list."""

    claim: ClaimView
    reason: str
    """A :class:`interlock.claims.Reason`."""
    why: str


class ClaimPage(NamedTuple):
    """One claim in detail. The explanation says if the key was not claimed."""

    key: str
    claim: ClaimView | None
    reason: str
    why: str
    explanation: Explanation
    seen: tuple[Seen, ...]


class EventRow(NamedTuple):
    """One event of a list."""

    event: EventView
    """Without its payload."""
    states: Mapping[JobState, int]
    """The states of its jobs. Jobs that are no longer kept are not counted."""
    reason: str
    """A :class:`interlock.events.Reason`."""
    why: str
    """``2 jobs: 1 done, 1 waiting``."""


class EventPage(NamedTuple):
    """One event in detail, with its jobs."""

    event: EventView
    """With its payload."""
    reason: str
    why: str
    jobs: tuple[JobRow, ...]
    explanation: Explanation
    seen: tuple[Seen, ...]


# -- all of it ---------------------------------------------------------------------------------------------------------


class LaneCounts(NamedTuple):
    """Lanes that have jobs or are held."""

    running: int
    fetched: int
    """Lanes whose head is at a worker and has not started."""
    held: int
    """By a person."""
    parked: int
    """After a failure."""


class LockCounts(NamedTuple):
    """Counts of locks and waiters."""

    held: int
    waiting: int
    """The number of waiters in all queues."""


class LimitCounts(NamedTuple):
    """Limits in use, of jobs and of reservations."""

    used: int
    full: int
    waiting: int
    """The number of waiters of all limits."""


class Problem(NamedTuple):
    """Something that needs a person's attention."""

    text: str
    kind: str
    """Its subject: queue, lane, job, jobs, lock, limit, worker, schedule, journal. For ``jobs``, ``ref`` is a state to
    list."""
    ref: str
    remedy: str


class Overview(NamedTuple):
    """The overview."""

    parts: frozenset[str]
    """The supported concepts: jobs, events, limits, locks, claims. The fields of others are empty."""
    problems: tuple[Problem, ...]
    """Most severe first."""
    totals: Mapping[JobState, int]
    """Jobs by state, including ended jobs that are still kept."""
    queues: tuple[QueueRow, ...]
    workers: tuple[WorkerRow, ...]
    lanes: LaneCounts
    locks: LockCounts
    limits: LimitCounts
    running: tuple[JobRow, ...]
    """Some of the running jobs."""
    waiting: tuple[JobRow, ...]
    """Some of the jobs that wait for a limit, a hold or a person."""
    failures: tuple[JobRow, ...]
    """The jobs that failed or were quarantined most recently."""
    events: tuple[EventRow, ...]
    """The most recent events."""
    seen: tuple[Seen, ...]


class Bucket(NamedTuple):
    """A span of time, from ``at`` on."""

    at: float
    accepted: int
    done: int
    failed: int
    """Failed permanently, including quarantined jobs."""


class Activity(NamedTuple):
    """Activity in equal spans, oldest first. The last span is not over yet."""

    seconds: float
    """How long each span is."""
    buckets: tuple[Bucket, ...]
    seen_at: float
