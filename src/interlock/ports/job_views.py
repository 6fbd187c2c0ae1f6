"""Jobs, lanes and queues as people see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from interlock.ports.jobs import JobState
    from interlock.ports.limits import Use

__all__ = [
    "Attempt",
    "JobFilter",
    "JobView",
    "LaneView",
    "JobSituation",
    "QueueView",
    "RunningSuspects",
    "Suspicion",
    "WorkerView",
]


class WorkerView(NamedTuple):
    """Who works, or worked."""

    session: str
    host: str
    pid: int
    program: str


class Attempt(NamedTuple):
    """One fetch of a job that came to an end other than being returned."""

    number: int
    outcome: str
    """As text: that of an ``Outcome``, ``crashed``, or ``interrupted`` by the end of a process that was told to."""
    started_at: float
    ended_at: float
    worker: WorkerView
    fence: int
    error: str
    trace: str


class JobView(NamedTuple):
    """One job."""

    id: int
    name: str
    queue: str
    lane: str
    priority: int
    state: JobState
    attempt: int
    """How many attempts have failed, were done or are under way."""
    crashes: int
    """How many workers died while it was their only suspect."""
    enqueued_at: float
    due_at: float
    fetched_at: float | None
    finished_at: float | None
    worker: WorkerView | None
    """Who runs it, or ran it last."""
    fence: int
    error: str
    """Why it failed last, was parked, cancelled or discarded."""
    superseded_by: int | None
    uses: tuple[Use, ...]
    arguments: str
    options: str
    result: str | None
    """None also once it is no longer kept; see ``result_kept_until``."""
    result_kept_until: float | None
    attempts: tuple[Attempt, ...]
    seen_at: float


class JobFilter(NamedTuple):
    """Which jobs to list. Empty means any."""

    states: tuple[JobState, ...] = ()
    name: str = ""
    queue: str = ""
    lane: str = ""


class RunningSuspects(NamedTuple):
    """Suspects of one half that a worker has."""

    worker: WorkerView
    same_half: bool
    """Whether they are of the half that was asked about."""
    same_group: bool
    """Whether they are of that half or the other half of its group."""
    jobs: tuple[int, ...]
    """Up to 5 of them."""
    total: int


class Suspicion(NamedTuple):
    """The group of suspects that a job belongs to, as far as they are unfinished, and all suspects that run now."""

    half: tuple[int, ...]
    """Up to 5 jobs of its half, itself among those counted."""
    half_count: int
    other_half: tuple[int, ...]
    """Up to 5 of the other half of its group."""
    other_count: int
    running: tuple[RunningSuspects, ...]
    """By worker and half, those of its own group first; up to 20."""


class JobSituation(NamedTuple):
    """What decides when a job will run."""

    job: JobView
    ahead: int
    """Ready: how many ready jobs of its queue come first. Behind: how many of its lane. Waiting: how many in the line.
    Counted up to 10,000."""
    lane_head: int | None
    """The job that its lane is at, if it is another."""
    lane_head_state: JobState | None
    held_by: str
    held_reason: str
    held_since: float | None
    """A person's hold on its lane."""
    parked_since: float | None
    parked_reason: str
    """The failure that parked its lane."""
    waits_for: str
    """The key of the limit that has no room."""
    holders: tuple[int, ...]
    """Up to 20 jobs that hold slots of that key."""
    room_at: float | None
    """When a pace lets the next one start, if that is what it waits for."""
    workers: int
    """How many live workers know its name and work on its queue."""
    workers_of_queue: int
    more_ahead: bool = False
    """Whether ``ahead`` was counted only so far, and there may be more."""
    suspicion: Suspicion | None = None
    """Set if the job is a suspect: it was there when a worker died."""


class LaneView(NamedTuple):
    """One lane."""

    lane: str
    state: JobState
    """That of its head; HELD also if there is no job."""
    head: int | None
    name: str
    depth: int
    """How many jobs, counted up to 10,000."""
    since: float
    """Since when it is held or parked; if it is neither, when its head was due."""
    worker: WorkerView | None
    held_by: str
    held_reason: str
    held_since: float | None
    """A person's hold."""
    parked_since: float | None
    parked_reason: str
    """The failure that parked it. A lane may be held and parked."""
    seen_at: float


class QueueView(NamedTuple):
    """One queue."""

    queue: str
    ready: int
    """Jobs that could be fetched now."""
    behind: int
    scheduled: int
    waiting: int
    running: int
    held: int
    """The first of lanes that are held or were parked after a failure."""
    parked: int
    oldest_ready_at: float | None
    next_due_at: float | None
    """When the first of those for later is due; it has passed if nobody was there to take it up."""
    workers: int
    runners: int
