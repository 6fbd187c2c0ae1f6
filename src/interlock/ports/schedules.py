"""Schedules: durable cron expressions and intervals that enqueue jobs. The contract that every store with jobs keeps.

**A firing** moves the schedule's next time from the one that was read to a later one and enqueues its jobs, in one
transaction or not at all (:meth:`ScheduleStore.fire`). Of all processes that attempt the same firing, one succeeds; so
each firing happens once, without a leader. Repeating one whose answer was lost finds it done.

**Versions.** Every change of a schedule except a firing gives it a new version, larger than all before in the
namespace. An edit names the version that it replaces, and changes nothing if that is not the current one.

**States.** An active schedule fires. A paused one was stopped by a person. One that is off was switched off because it
cannot work; the reason is kept.

**Declarations.** A schedule in code is stored under the name of its job. Each process leaves the fingerprint of what
its code declares (:meth:`ScheduleStore.declare`). A declaration replaces the stored one if it was never replaced
itself, or if no live process declares the stored one any more. So old and new programs that run side by side do not
replace each other's declarations in turn.

**Values.** The store does not interpret expressions, time zones and policies: they are text, and may have been
edited by hand. Times are seconds since 1970 by the store's clock.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.ports.jobs import NewJob
    from interlock.ports.journal import Attribution

__all__ = [
    "FIRINGS_KEPT",
    "Declaration",
    "DueSchedules",
    "Edited",
    "Enqueuing",
    "Fired",
    "Firing",
    "FiringKind",
    "FiringOutcome",
    "Misfire",
    "Overlap",
    "ScheduleConflict",
    "ScheduleDefinition",
    "ScheduleEdit",
    "ScheduleOrigin",
    "ScheduleState",
    "ScheduleStore",
    "StateChange",
    "StoredFiring",
    "StoredSchedule",
]

FIRINGS_KEPT = 100
"""How many firings of a schedule are kept."""


class ScheduleState(StrEnum):
    """Whether a schedule fires."""

    ACTIVE = "active"
    PAUSED = "paused"
    """A person paused it."""
    OFF = "off"
    """It was switched off because it cannot work."""


class ScheduleOrigin(StrEnum):
    """Where a schedule is defined."""

    CODE = "code"
    """Declared by ``@app.cron`` or ``@app.every``."""
    STORED = "stored"
    """Saved at run time."""


class Misfire(StrEnum):
    """What happens to times that passed while no process could fire."""

    SKIP = "skip"
    """They are skipped if they are later than the grace."""
    ONCE = "once"
    """One job for all of them."""
    CATCH_UP = "catch_up"
    """One job for each of them."""


class Overlap(StrEnum):
    """What happens when it is time and the job of the previous firing is unfinished."""

    SKIP = "skip"
    """Nothing is enqueued."""
    QUEUE = "queue"
    """The job is enqueued, and waits in the schedule's lane."""


class FiringKind(StrEnum):
    """Why jobs were enqueued."""

    SCHEDULED = "scheduled"
    TRIGGERED = "triggered"
    BACKFILLED = "backfilled"


class FiringOutcome(StrEnum):
    """The outcome of a firing."""

    ENQUEUED = "enqueued"
    OVERLAP = "overlap"
    """Nothing was enqueued, because the job of the previous firing was unfinished."""
    MISSED = "missed"
    """Times passed for which nothing was enqueued; ``times`` of them."""


class ScheduleDefinition(NamedTuple):
    """The job of a schedule, its timing and its policies."""

    job: str
    arguments: str
    """As JSON."""
    cron: str
    """Empty for an interval."""
    every: float
    """Seconds; 0 for a cron expression."""
    timezone: str
    misfire: str
    grace: float
    overlap: str
    jitter: float
    template: str
    """JSON that describes how the job is enqueued by processes in which it is not defined."""


class StoredSchedule(NamedTuple):
    """A schedule as it is kept."""

    name: str
    version: int
    origin: str
    state: str
    definition: ScheduleDefinition
    anchor_at: float
    """A time on the grid of an interval."""
    next_at: float | None
    """When it fires next; kept while it is not active. None if it never does."""
    created_at: float
    updated_at: float
    updated_by: str
    state_at: float
    """When it got its state."""
    state_by: str
    state_reason: str
    last_at: float | None
    """The time of the last firing that enqueued a job."""
    last_job: int | None
    """The last job of that firing."""
    fired: int
    """How many jobs it has enqueued."""
    skipped: int
    """How many firings were skipped because of an overlap."""
    missed: int
    """How many times passed without a firing."""
    declaration: str
    """The fingerprint of the declaration; empty if it was saved at run time."""
    reported: bool
    """Whether an application was notified that it is off."""
    declared_by: int
    """How many live processes declare a schedule of this name, with any fingerprint."""


class ScheduleEdit(NamedTuple):
    """A new or changed schedule."""

    name: str
    expected: int
    """The version that it replaces; 0 if there must be none."""
    definition: ScheduleDefinition
    active: bool
    """Otherwise it is paused."""
    anchor_at: float
    next_at: float | None
    """Not used if an unpaused schedule keeps its timing: its next time may be due, or have been fired just now."""
    attribution: Attribution
    id: str
    """Identifies the edit, so that repeating it is safe."""


class StateChange(NamedTuple):
    """A schedule that is to be paused, resumed, or switched off or on."""

    name: str
    state: ScheduleState
    action: str
    """The verb of the journal."""
    attribution: Attribution
    expected: int | None = None
    """The version that it applies to; None for any."""
    next_at: float | None = None
    """None to leave it as it is."""


class Edited(NamedTuple):
    """The edit took effect, now or in an earlier attempt; or there was nothing to change."""

    schedule: StoredSchedule
    changed: bool


class ScheduleConflict(NamedTuple):
    """Nothing was changed, because the schedule does not have the expected version."""

    schedule: StoredSchedule | None
    """The current one; None if it does not exist."""


class Declaration(NamedTuple):
    """A schedule that the code of a process declares."""

    name: str
    definition: ScheduleDefinition
    fingerprint: str
    anchor_at: float
    """A time on its grid, if it is new or replaces another one."""
    next_at: float | None
    """In the same case, and not used if an unpaused schedule keeps its timing; see :class:`ScheduleEdit`."""


class DueSchedules(NamedTuple):
    """The schedules that a process has to fire."""

    now: float
    schedules: Sequence[StoredSchedule]
    """The one with the earliest time first."""
    next_at: float | None
    """When the earliest of the others is due that this process can fire."""


class Firing(NamedTuple):
    """One step of a schedule."""

    name: str
    version: int
    expected_at: float
    """The next time that was read."""
    next_at: float | None
    jobs: Sequence[NewJob]
    """Empty if all times up to now are skipped."""
    times: Sequence[float]
    """The time of each job."""
    missed: int
    """How many other times passed."""
    skip_overlap: bool
    """Whether nothing is enqueued while the last job is unfinished."""


class Fired(NamedTuple):
    """The answer to a firing."""

    won: bool
    """False if another process was faster, or the schedule was changed: nothing was done."""
    enqueued: bool


class Enqueuing(NamedTuple):
    """Jobs that a person enqueues through a schedule."""

    name: str
    kind: FiringKind
    jobs: Sequence[NewJob]
    times: Sequence[float]
    attribution: Attribution


class StoredFiring(NamedTuple):
    """A firing as it is kept."""

    number: int
    """Counts the entries of a schedule, from 1."""
    at: float
    """The time that it was for."""
    fired_at: float
    kind: str
    outcome: str
    job: int | None
    times: int
    """How many times a missed entry stands for."""


class ScheduleStore(Protocol):
    """Schedules in one store and namespace. Requires JOBS and JOURNAL in the same store."""

    @property
    def poll_interval(self) -> float:
        """How often to look for changes that ``on_change`` may not report."""
        ...

    async def save(self, edit: ScheduleEdit) -> Edited | ScheduleConflict:
        """Create or replace a schedule, with its journal entry. One that is declared in code is a conflict.

        An edit that is already stored is reported as done.
        """
        ...

    async def set_state(self, change: StateChange) -> Edited | ScheduleConflict:
        """Change the state, with its journal entry. A schedule that already has the state is left as it is."""
        ...

    async def delete(
        self, name: str, attribution: Attribution, *, expected: int | None = None
    ) -> StoredSchedule | ScheduleConflict:
        """Remove a schedule and its firings, with a journal entry. Its jobs stay. A conflict if it does not exist."""
        ...

    async def declare(self, session: str, declarations: Sequence[Declaration], attribution: Attribution) -> None:
        """Record what the code of a process declares, and store it where it is new; see above.

        The pauses of a schedule stay. A schedule of this name that was saved at run time is left alone. Each change has
        a journal entry. Declarations count for as long as the session lives.
        """
        ...

    async def due(
        self, jobs: Sequence[str], declared: Sequence[str], *, but: Sequence[str] = (), limit: int = 100
    ) -> DueSchedules:
        """Return active schedules that are due: saved ones of these jobs, and declared ones of these names.

        Those in ``but`` are left out.
        """
        ...

    async def fire(self, firing: Firing) -> Fired:
        """Do one step of a schedule; see above."""
        ...

    async def enqueue(self, enqueuing: Enqueuing) -> StoredSchedule | None:
        """Enqueue jobs through a schedule, with a journal entry; None if it does not exist.

        The jobs count as its last ones. Repeating it after a lost answer changes nothing.
        """
        ...

    async def set_reported(self, name: str, version: int) -> None:
        """Record that an application was notified that this version is off."""
        ...

    async def get(self, name: str) -> tuple[float, StoredSchedule | None]:
        """Return the store's time, and a schedule."""
        ...

    async def list(self, *, limit: int = 1000, after: str = "") -> tuple[float, Sequence[StoredSchedule]]:
        """Return the store's time, and schedules by name, those after this name."""
        ...

    async def firings(self, name: str, *, limit: int = FIRINGS_KEPT) -> Sequence[StoredFiring]:
        """List the last firings of a schedule, newest first."""
        ...

    def on_change(self, call: Callable[[], None]) -> Callable[[], None]:
        """Call back on the caller's loop when schedules may have changed; returns a function to unsubscribe.

        Only a hint, like all messages.
        """
        ...
