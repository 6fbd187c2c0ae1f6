"""What Insight answers with: rows of lists and pages of single things, as one look at a store shows them.

Times are seconds since 1970 by the clock of the store that was looked at; ``seen_at`` is the time of that look. Counts
go up to a bound (``MOST_COUNTED``), so that stores costs the same however much there is: that many means "or more".
Texts are as they were stored: whoever shows them escapes them.
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
    "MOST_COUNTED",
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

MOST_COUNTED = 10_000
"""Counts end here."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Part of a list, in its order."""

    rows: tuple[T, ...]
    more: str | None
    """Where to go on: pass it as ``before`` (jobs, events) or ``after`` (all others). None: this was the end.

    A look for something rare ends after a bounded number of things looked at; then there are fewer rows than asked
    for, or none, and ``more`` all the same.
    """
    seen_at: float

    def __iter__(self) -> Iterator[T]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return bool(self.rows)


class Seen(NamedTuple):
    """Which store was looked at, and when. What one store shows is one state; two stores are two."""

    store: str
    """The backend's name: sqlite, postgres, redis, memory."""
    parts: tuple[str, ...]
    """What was seen there: jobs, events, limits, locks, claims."""
    at: float


class Who(NamedTuple):
    """A caller that holds or waits."""

    caller: str
    """As the store knows it: ``job:42:1f2e`` or ``host:pid:…/task``."""
    name: str
    """As people call it: ``job 42 (report)``, else the caller."""
    job: int | None
    """The job that it is, if it is one that runs in the app's own store."""
    session: str
    host: str
    pid: int
    program: str


# -- locks -------------------------------------------------------------------------------------------------------------


class LockHolder(NamedTuple):
    """Who holds a key."""

    who: Who
    fence: int
    since: float
    expires_at: float
    """Unless it is renewed."""


class LockWaiter(NamedTuple):
    """One place in a key's queue."""

    place: int
    """1 for the next."""
    who: Who
    since: float
    gives_up_at: float | None
    live: bool
    """Whether it still waits; False if its process ended or its time is over."""
    why: str


class LockRow(NamedTuple):
    """One key that is held or awaited."""

    key: str
    holder: LockHolder | None
    waiters: tuple[LockWaiter, ...]
    """In order; in a list only the first few."""
    waiting: int
    """How many there are in all."""
    free_since: float | None
    reason: str
    """A :class:`interlock.locks.Reason`."""
    why: str
    seen_at: float


class LockPage(NamedTuple):
    """All about one key. Of one that nobody holds or awaits the explanation says so."""

    key: str
    lock: LockRow | None
    reason: str
    why: str
    explanation: Explanation
    seen: tuple[Seen, ...]


# -- limits ------------------------------------------------------------------------------------------------------------


class LimitRow(NamedTuple):
    """One limit that is in use.

    ``Slots("containers", 5)`` on jobs counts jobs, and in ``app.limits`` it counts reservations: the two do not add up,
    and are two rows.
    """

    key: str
    counts: str
    """``jobs`` or ``reservations``."""
    most: int
    per: float
    """Seconds of a pace; 0 for slots."""
    figure: str
    """``5 at once``, ``1 every 90 s``, ``100 in any 60 s``."""
    taken: int
    """Slots: how many are at work. Pace: how many starts count now."""
    waiting: int
    full: bool
    room_at: float | None
    """Pace without room: when the next one may start."""
    reason: str
    """A :class:`interlock.limits.Reason`."""
    why: str
    """``5 of 5 at work, 3 wait``."""
    seen_at: float


class LimitHolder(NamedTuple):
    """Who has a slot, or made a start that counts."""

    counts: str
    who: Who
    since: float | None
    until: float | None
    """Pace: until when its start counts."""


class LimitWaiter(NamedTuple):
    """One place in a limit's line."""

    counts: str
    place: int
    who: Who
    """Of a waiting job only ``name`` and ``job`` are known: no process has it yet."""
    since: float
    at: float | None
    """When its turn comes, as far as that is known."""
    why: str


class LimitPage(NamedTuple):
    """All about one limit: who has its room, and who waits, in order."""

    key: str
    rows: tuple[LimitRow, ...]
    """None if nobody uses it; two if both jobs and reservations do."""
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
    """All about one claim. Of a key that nobody claimed the explanation says so."""

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
    """How the jobs stand that it caused. Those that are no longer kept are not counted."""
    reason: str
    """A :class:`interlock.events.Reason`."""
    why: str
    """``2 jobs: 1 done, 1 waiting``."""


class EventPage(NamedTuple):
    """All about one event: what it was, and what it caused."""

    event: EventView
    """With its payload."""
    reason: str
    why: str
    jobs: tuple[JobRow, ...]
    explanation: Explanation
    seen: tuple[Seen, ...]


# -- all of it ---------------------------------------------------------------------------------------------------------


class LaneCounts(NamedTuple):
    """Lanes with jobs, or held."""

    running: int
    held: int
    """By a person."""
    parked: int
    """After a failure."""


class LockCounts(NamedTuple):
    """Locks, and those who wait for them."""

    held: int
    waiting: int
    """How many wait, in all queues together."""


class LimitCounts(NamedTuple):
    """Limits in use, of jobs and of reservations."""

    used: int
    full: int
    waiting: int
    """How many wait, in all lines together."""


class Problem(NamedTuple):
    """Something that a person should look at."""

    text: str
    kind: str
    """What it is about: queue, lane, job, jobs, lock, limit, worker. ``jobs``: ``ref`` is a state to list."""
    ref: str
    remedy: str


class Overview(NamedTuple):
    """How everything stands."""

    parts: frozenset[str]
    """What there is: jobs, events, limits, locks, claims. The rest is empty below."""
    problems: tuple[Problem, ...]
    """The worst first."""
    totals: Mapping[JobState, int]
    """Jobs by state, those that ended as long as they are kept."""
    queues: tuple[QueueRow, ...]
    workers: tuple[WorkerRow, ...]
    lanes: LaneCounts
    locks: LockCounts
    limits: LimitCounts
    running: tuple[JobRow, ...]
    """Some of those that run."""
    waiting: tuple[JobRow, ...]
    """Some of those that wait for a limit, a hold, or a person."""
    failures: tuple[JobRow, ...]
    """The last that failed or were quarantined."""
    events: tuple[EventRow, ...]
    """The last that came in."""
    seen: tuple[Seen, ...]


class Bucket(NamedTuple):
    """A span of time, from ``at`` on."""

    at: float
    accepted: int
    done: int
    failed: int
    """For good, quarantined ones too."""


class Activity(NamedTuple):
    """What came and went, in equal spans, the oldest first. The last one is not over yet."""

    seconds: float
    """How long each span is."""
    buckets: tuple[Bucket, ...]
    seen_at: float
