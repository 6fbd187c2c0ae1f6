"""Jobs: durable units of work, in order within their lanes, under their limits. The contract that every store keeps.

**Standing.** An unfinished job stands in exactly one place, and every step from one to another is atomic:

- ready: may be fetched now. Of a lane only the head can be.
- fetched: given to a session, which runs it or is about to. It holds its slots.
- later: waits for its time; delayed, to be retried, or snoozed.
- waiting: one of its limits has no room.
- behind: not the head of its lane; nothing else is known of it.
- held: head of a lane that a person holds or that was parked after a failure.
- parked: set aside by itself until a person acts. It still has its position in its lane.

A finished job is history: it has left the hot tables, counts for nothing, and is kept for a while to be looked at.

**Lanes.** Jobs of one lane are fetched in the order of their positions and never two at once, except as a run:
consecutive jobs given together to one session, which starts each when the one before it has been acknowledged. A job
takes its position when it is accepted, or, if it was delayed, when it is due. Positions grow: of two enqueues the one
that returned before the other began has the smaller one. Retrying, snoozing, rescue, handing back and waiting for a
limit keep the position, so the job stays head and the lane waits with it; only ``Failing.SKIP`` gives it up on retry,
for a new one when the job is due. A lane competes with others by the sort key of its head.

**Order.** Ready jobs are fetched by sort key: the time when the job became ready less ``PRIORITY_WEIGHT`` seconds for
each point of priority. Retrying and the like give a new time; handing back, rescue and waiting for a limit keep the
old one.

**Limits.** A fetch takes all limits of a job or none, in the step that fetches it; its acknowledgement frees the
slots. A pace counts starts: each as late as the fetcher may start the job, which is ``FetchRequest.start_within``
after the fetch. So handlers that start by then are never closer together than the pace allows. A start goes on
counting whatever becomes of the job, unless the job is handed back unstarted. A job that finds no room waits in the
line of the first limit (in the order of keys) that has none, and leaves the ready jobs; lines are served first come,
first served, and newcomers stand behind. When room appears whoever is first in line among the jobs of each name in
each queue becomes ready again, keeping its ticket in line; a fetcher serves those of the names it takes in order, and
the others hold up nothing. So a key without room costs others nothing. Where figures for one key differ, a fetch has
to satisfy its own and those of the jobs fetched, so the smaller one holds.

**Fences.** Every fetch has a fence larger than any that the job had before. Acknowledging needs it: a acknowledgement
whose fence is not that of the present fetch is refused and changes nothing. The fetch itself ends only by
acknowledgement, or by rescue after its session has ended; so while a session lives its jobs are nobody else's.

**Refusals.** A job whose arguments a worker cannot read is returned by it as ``UNREADABLE``, and refused by its
version: it stands apart, keeps its place and time, and is fetched only with ``FetchRequest.reads`` that hold a
fingerprint which has not refused it. A refused head blocks its lane. People see it as ready, or, when no live worker
that attends its queue can read it, as parked; a worker of another version takes it all the same. What was refused once
and comes back from a fetch is refused again; only after a delay is it offered to all, and perhaps refused once more.
``retry`` forgets the refusals.

**Crashes.** Rescue makes a suspect of every job that the dead session may have been running: all of those fetched, but
of a run only the first. Those that were not suspects before form a group, and so do those that were suspects of one
half; rescue splits each group into two new halves of the same size, give or take one. A suspect is never fetched in
advance nor as part of a run, and a session has suspects of at most one half at a time, beside any number of jobs that
are not suspects. So the halves of a group run side by side only in different processes, and suspects of two groups
never share one. The crash counts for a job only if it was the only suspect in the session, or if there was no suspect
and no other job that may have been running. At ``MAX_CRASHES`` such crashes it is quarantined, which is the end of
it. Acknowledging an attempt in any way but ``RETURNED`` and ``UNREADABLE`` clears the job of being a suspect; what was
counted stays, since a job that fails or snoozes between two crashes is not shown to be harmless. Returning and handing
back change neither, nor does the death of a process that had been told to end (``SessionStore.leave``): a deploy says
nothing about a job.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import SessionEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.ports.job_views import JobFilter, JobSituation, JobView, LaneView, QueueView
    from interlock.ports.journal import Attribution
    from interlock.ports.limits import Use

__all__ = [
    "MAX_ARGUMENT_BYTES",
    "MAX_ATTEMPTS_KEPT",
    "MAX_CRASHES",
    "PRIORITY_WEIGHT",
    "FetchRequest",
    "FetchResult",
    "FetchedJob",
    "Failing",
    "JobState",
    "JobStore",
    "NewJob",
    "Outcome",
    "HandlerVersion",
    "Rescued",
    "SessionEnded",
    "Acknowledged",
    "Acknowledgement",
    "StartWindow",
]

PRIORITY_WEIGHT = 600.0
"""Seconds of waiting that a point of priority is worth."""
MAX_CRASHES = 3
"""After so many deaths of workers that had no other suspect a job is quarantined."""
MAX_ARGUMENT_BYTES = 1024 * 1024
"""Size of a job's arguments, and of its result, as JSON."""
MAX_ATTEMPTS_KEPT = 50
"""How many attempts of a job are kept; the first one and the last ones."""


class JobState(StrEnum):
    """How a job stands, as people see it."""

    READY = "ready"
    BEHIND = "behind"
    """Waits for the jobs before it in its lane."""
    SCHEDULED = "scheduled"
    """Waits for its time."""
    WAITING = "waiting"
    """Waits for a limit."""
    HELD = "held"
    """Head of a lane that is held or parked."""
    PARKED = "parked"
    RUNNING = "running"
    """Fetched: at work, or about to be."""
    DONE = "done"
    FAILED = "failed"
    """For good: a dead letter, which can be retried by hand."""
    DISCARDED = "discarded"
    """Its handler said that there is nothing to do."""
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    """A newer job of its lane took its place; see ``superseded_by``."""
    QUARANTINED = "quarantined"
    """It killed too many workers; can be retried by hand."""

    @property
    def final(self) -> bool:
        """Whether nothing will happen to the job any more by itself."""
        return self in _FINAL


_FINAL = frozenset(
    {
        JobState.DONE,
        JobState.FAILED,
        JobState.DISCARDED,
        JobState.CANCELLED,
        JobState.SUPERSEDED,
        JobState.QUARANTINED,
    }
)


class Failing(StrEnum):
    """What a failure of a job means for its lane."""

    BLOCK = "block"
    """The lane waits while the job is to be retried, and goes on when it has failed for good."""
    SKIP = "skip"
    """The lane goes on at once; the job comes back at the end of the line when it is due."""
    PARK = "park"
    """The lane waits while the job is to be retried, and is parked when it has failed for good."""


class NewJob(NamedTuple):
    """A job to accept."""

    id: int
    """One of those that ``ids`` gave, used once."""
    name: str
    queue: str
    lane: str
    """Empty for none."""
    priority: int
    """0 to 100."""
    delay: float
    """Seconds from now until it is due; 0 for at once. Counted by the store's clock."""
    at: float | None
    """When it is due, instead of ``delay``."""
    uses: tuple[Use, ...]
    """Its limits, in the order of their keys, each key once."""
    failing: Failing
    coalesce: bool
    """Whether, when it is fetched as head of its lane, the job directly behind it of the same name that also coalesces
    takes its place, and so on to the last of them."""
    keep_result: float
    """How many seconds a result is kept."""
    arguments: str
    options: str
    """For the worker alone; the store does not look inside."""


class HandlerVersion(NamedTuple):
    """What a worker's handler for one job can read."""

    name: str
    fingerprint: str
    """The same for handlers that take the same arguments, in the same version of the program."""
    version: str
    """For people."""


class FetchRequest(NamedTuple):
    """What a worker would take."""

    session: str
    queues: tuple[str, ...]
    """Each gets its share of the fetch as far as it has work; where one has less, others get more."""
    names: tuple[str, ...]
    """The jobs that the worker knows; others are left alone."""
    most: int
    """How many jobs in all."""
    at_once: int
    """How many could start right now. Jobs with a pace and suspects are given only among so many, and slots that are
    getting scarce too: of a key with ``room`` left, at most the larger of ``at_once`` and half of ``room``."""
    run: int
    """How many consecutive jobs of one lane to take at most. A run ends before a job with limits, a suspect, one of
    another queue, one that is not ready to be fetched by itself, or one whose name is not known. A job with limits is
    fetched alone."""
    fetch_number: int = 0
    """Grows with every fetch of a session; see ``return_unstarted``."""
    start_within: float = 0.0
    """How many seconds after the fetch the worker may start jobs with a pace. It returns those that it could only start
    later."""
    reads: tuple[HandlerVersion, ...] = ()
    """If given, the fetch also considers refused jobs that none of these fingerprints refused, and parks those that no
    live worker can read. Given now and then, since refused jobs are rare and looking for them is not free."""


class FetchedJob(NamedTuple):
    """A job that was given to a session."""

    id: int
    name: str
    queue: str
    lane: str
    fence: int
    attempt: int
    """1 for the first. Snoozing, handing back and crashes do not count, failures do."""
    crashes: int
    """How many workers died while it was their only suspect."""
    half: int | None
    """The half of a group of suspects that it belongs to; None if it is not a suspect."""
    priority: int
    enqueued_at: float
    due_at: float
    """Since when it was ready, or behind others of its lane."""
    arguments: str
    options: str
    slots: tuple[str, ...]
    """Keys of the slots that it holds."""
    paced: bool = False
    """Whether it has a rate or cooldown, so that it has to start within ``FetchRequest.start_within``."""
    window: StartWindow | None = None
    """Filled in by the worker, for a job with a pace."""


class StartWindow(NamedTuple):
    """When the handler of a job with a pace may start, by the worker's monotonic clock."""

    asked_at: float
    """When the worker asked for it: no later than the fetch."""
    start_by: float


class FetchResult(NamedTuple):
    """What a fetch gave."""

    jobs: Sequence[FetchedJob]
    """In the order to start them. Those of one lane stand next to each other and are a run."""
    look_again: float
    """After how many seconds there may be something to fetch with nobody telling; inf if only news can change it.
    0 if the fetch was cut short, for instance because many lanes had to be made ready first."""


class Outcome(StrEnum):
    """How a fetch ends."""

    DONE = "done"
    FAILED = "failed"
    """For good."""
    RETRY = "retry"
    """It failed and is due again after ``delay``. Counts as an attempt."""
    SNOOZED = "snoozed"
    """It is due again after ``delay``. Does not count as an attempt."""
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    PARKED = "parked"
    """It cannot run as it is; a person has to act. ``error`` says why. Not an attempt."""
    UNREADABLE = "unreadable"
    """The worker's version cannot read its arguments: it never started, and is refused. ``result`` is the JSON of the
    version's fingerprint and name, ``error`` says why."""
    RETURNED = "returned"
    """It never started: as if it had not been fetched."""


class Acknowledgement(NamedTuple):
    """The end of one fetch."""

    id: int
    fence: int
    outcome: Outcome
    ran: float = 0.0
    """Seconds since its handler started."""
    delay: float = 0.0
    result: str | None = None
    error: str = ""
    """In one line: what kind, and what it says."""
    trace: str = ""


class Acknowledged(NamedTuple):
    """What acknowledging found, in the order asked for."""

    accepted: Sequence[bool]
    """False: the fetch had ended before, and nothing was changed. Acknowledging once more what was accepted is
    accepted."""
    ready: bool
    """Whether jobs became ready by it."""
    blocked: Mapping[int, str] = MappingProxyType({})
    """Those that could not be acknowledged because another transaction has locked rows that they change: their places,
    and what is locked by whom. Nothing was changed for them, and they are to be acknowledged again later; ``accepted``
    says nothing of them. Only in a database whose rows others can lock."""


class Rescued(NamedTuple):
    """A job taken from a session that has ended."""

    id: int
    name: str
    session: str
    crashes: int
    """How many crashes count for it, this one included if it does."""
    quarantined: bool
    half: int | None = None
    """The half of a group of suspects that it belongs to now; None if it is not a suspect, or has ended."""


class JobStore(Protocol):
    """Jobs in one store and namespace."""

    async def ids(self, count: int) -> range:
        """So many ids that nobody else gets; one round trip for many jobs to come."""
        ...

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> None:
        """Accept jobs, all or none. Durable when it returns. Whoever works on their queues is told.

        Takes no lock that another enqueue could wait for. With ``again`` those that an earlier call may have stored
        already are left as they are, whatever became of them, so that a call whose answer was lost can be repeated.
        Jobs of one call take their positions in its order.
        """
        ...

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Give jobs to a session. Repeating after a lost answer gives others: what was fetched is given back with
        ``return_unstarted``, or rescued when the session ends."""
        ...

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """End fetches, each on its own, all in one step. Engine also if the session has ended meanwhile, as long as the
        fetches stand."""
        ...

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return every job that a session has fetched, except these, as never started; says how many.

        For a worker that stops, that lost the answer to a fetch, or whose session ended although it lives: no crash
        is counted. With ``fetch_number`` only what was fetched up to that turn goes back, and from then on a fetch of
        such a turn gives nothing: so neither a fetch nor this, should its answer be lost and it take effect late, does
        harm.
        """
        ...

    async def rescue(self, *, most: int = 1000) -> Sequence[Rescued]:
        """Take the jobs of sessions that have ended, make suspects of those that may have been running, and make them
        ready. If it takes several calls for one session, each part forms groups of its own, and only in the first one
        a crash can count."""
        ...

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
    ) -> None:
        """Say what a worker works on and can read, for those who ask why a job waits, and to decide whether any live
        worker can read a job that others refused. Vanishes with the session."""
        ...

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back on the caller's loop when there may be something to fetch in one of these queues; returns what
        ends that. Only a hint, like all messages; needs ``messages.listen``."""
        ...

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Which of these jobs have ended (or are not known). The session is told of the end of each of the others as
        the turn of the owner ``{session}.j{id}``, once."""
        ...

    # -- operations: each writes its journal entry in the same transaction; see ports.journal ------------------------

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Let no further job of the lane start until it is released. Running jobs continue; the sessions that have
        fetched more of the lane hear ``taken`` for the owner ``{session}.{fence}.j{id}`` of each, and return what has
        not started. Holding a lane again with the same actor and reason changes nothing."""
        ...

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """End the hold, and let a parked lane continue; False if it was neither."""
        ...

    async def cancel(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """End a job that does not run; ask for the end of one that does (its session hears ``taken`` for the owner
        ``{session}.{fence}.j{id}``; whatever it acknowledges then but ``DONE`` counts as cancelled). Return the state
        after; None for an unknown job."""
        ...

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now: one that waits for its time, that is parked, or that has failed, was cancelled,
        discarded or quarantined (with its attempts and crashes at 0 and a new position). Any other is left as it is.
        The state after; None if unknown."""
        ...

    async def get(self, id: int) -> JobView | None:  # noqa: A002
        """One job with all that is known of it, unfinished or kept."""
        ...

    async def list(self, filter: JobFilter, *, limit: int = 100) -> Sequence[JobView]:  # noqa: A002
        """Jobs as one snapshot, newest first, without arguments, results and attempts."""
        ...

    async def situation(self, id: int) -> JobSituation | None:  # noqa: A002
        """What decides when a job will run, as one snapshot."""
        ...

    async def lanes(self, lane: str | None = None, *, limit: int = 100) -> Sequence[LaneView]:
        """Lanes that are not empty or are held (or just the one), as one snapshot."""
        ...

    async def queues(self) -> Sequence[QueueView]:
        """All queues with what is in them and who works on them, as one snapshot."""
        ...

    async def prune(self, keep_history: float, *, most: int = 10_000) -> int:
        """Remove history older than so many seconds and results past their time, a bounded amount; says how many."""
        ...

    async def vacuum(self) -> float:
        """Vacuum the space of rows that have gone, where the store would not do so soon enough by itself.

        Returns after how many seconds to call again; infinity where there is nothing to do. Jobs are fetched and
        acknowledged meanwhile, and also if this fails."""
        ...
