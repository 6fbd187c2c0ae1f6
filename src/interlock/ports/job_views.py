"""Jobs, lanes and queues, as a store returns them to readers. Times are seconds of the store's clock."""

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
    "Need",
    "JobSituation",
    "QueuePause",
    "QueueView",
    "RowLock",
    "RunningSuspects",
    "Suspicion",
    "WorkerView",
]


class WorkerView(NamedTuple):
    """A worker process, live or past."""

    session: str
    host: str
    pid: int
    program: str


class Attempt(NamedTuple):
    """One fetch of a job that ended other than by being returned."""

    number: int
    outcome: str
    """An ``Outcome``, ``crashed``, or ``interrupted`` by the end of a process that was asked to end."""
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
    """The number of attempts, including a running one."""
    crashes: int
    """How many workers died while this job was their only suspect."""
    enqueued_at: float
    due_at: float
    fetched_at: float | None
    finished_at: float | None
    worker: WorkerView | None
    """The worker that runs it, or ran it last."""
    fence: int
    error: str
    """The last failure, or why it was parked, cancelled or discarded."""
    superseded_by: int | None
    uses: tuple[Use, ...]
    arguments: str
    options: str
    result: str | None
    """None also once it is no longer kept; see ``result_kept_until``."""
    result_kept_until: float | None
    attempts: tuple[Attempt, ...]
    seen_at: float
    cause: str = ""
    """What enqueued it; see ``NewJob.cause``."""


class JobFilter(NamedTuple):
    """Which jobs to list. Empty means any."""

    states: tuple[JobState, ...] = ()
    name: str = ""
    queue: str = ""
    lane: str = ""


class RunningSuspects(NamedTuple):
    """Suspects of one half that one worker has fetched."""

    worker: WorkerView
    same_half: bool
    """Whether they belong to the half in question."""
    same_group: bool
    """Whether they belong to that half or the other half of its group."""
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


class QueuePause(NamedTuple):
    """A person's pause of a queue."""

    by: str
    reason: str
    since: float


class RowLock(NamedTuple):
    """A transaction outside Interlock's control that keeps a row of a job locked."""

    table: str
    """The table of the row, without its schema."""
    pid: int
    """The process ID of the database's backend."""
    program: str
    """The ``application_name`` of its client; empty if unknown."""
    user: str
    state: str
    """Such as ``idle in transaction``; empty if the database does not show it to this user."""
    since: float | None
    """When its transaction began; None if the database does not show it to this user."""


class Need(NamedTuple):
    """A job that another one waits for."""

    id: int
    name: str
    """Empty if it is no longer kept."""
    state: JobState | None
    """None if it is no longer kept."""
    since: float | None
    """When it was fetched or has ended, otherwise when it is or was due."""


class JobSituation(NamedTuple):
    """The facts that decide when a job will run."""

    job: JobView
    ahead: int
    """Ready: how many ready jobs of its queue come first. Behind: how many of its lane. Waiting: how many in the line.
    Counted up to a bound; see ``more_ahead``."""
    lane_head: int | None
    """The head of its lane, if that is another job."""
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
    """When a pace allows the next start, if the job waits for that."""
    workers: int
    """How many live workers know its name and work on its queue. The live process that has it counts too."""
    workers_of_queue: int
    more_ahead: bool = False
    """Whether ``ahead`` is a lower bound because counting stopped."""
    suspicion: Suspicion | None = None
    """Set if the job is a suspect: a worker died while it had the job."""
    needs: tuple[Need, ...] = ()
    """Up to 5 of the jobs that it waits for, those that failed first."""
    needs_count: int = 0
    """How many there are."""
    row_lock: RowLock | None = None
    """Set by Insight if another transaction keeps a row of the job or of its lane locked; see
    ``JobInsight.row_locks``."""
    pause: QueuePause | None = None
    """The pause of its queue, unless the job has ended."""
    reserved: int = 0
    """Set by :func:`interlock.limits.situations.with_reservations`: how many reservations hold that key."""


class LaneView(NamedTuple):
    """One lane."""

    lane: str
    state: JobState
    """The state of its head; HELD also for a lane without jobs."""
    head: int | None
    name: str
    depth: int
    """How many jobs, counted up to 10,000, in lists up to 1,000."""
    since: float
    """Since when it has been held or parked; otherwise when its head was due."""
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
    """One queue. Each count ends at ``MAX_COUNTED``."""

    queue: str
    ready: int
    """Jobs that could be fetched now."""
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
    oldest_ready_at: float | None
    next_due_at: float | None
    """When the first scheduled job is due; in the past if no worker was there to take it."""
    workers: int
    runners: int
    """How many jobs of the queue its live workers run at once."""
    paused_by: str = ""
    paused_reason: str = ""
    paused_since: float | None = None
    """A person's pause."""
