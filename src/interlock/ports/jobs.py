"""Jobs: durable units of work, in order within their lanes, under their limits. The contract that every store keeps.

**States.** An unfinished job is in exactly one state, and every transition is atomic:

- ready: may be fetched now. Of a lane only the head can be ready.
- fetched: given to a session, which runs it or is about to. It holds its slots. Readers show it as ``running`` once its
  worker has reported that it started (``report_started``), and as ``fetched`` before that.
- scheduled: due at a later time; delayed, to be retried, or snoozed.
- waiting: one of its limits has no room.
- behind: not the head of its lane.
- blocked: one of the jobs that it waits for has not ended.
- held: head of a lane that a person holds or that was parked after a failure.
- parked: set aside until a person acts. It keeps its position in its lane.

A finished job is history: it has left the hot tables, counts for nothing, and is kept for a while to be read.

**Lanes.** Jobs of one lane are fetched in the order of their positions and never two at once, except as a run:
consecutive jobs given together to one session, which starts each when the store has acknowledged the one before it. A
job takes its position when it is accepted, or, if it was delayed, when it is due. Positions grow: of two enqueues, the
one that returned before the other began has the smaller position. Retry, snooze, rescue, return and waiting for a limit
keep the position, so the job stays the head and its lane waits; only ``OnFailure.SKIP`` gives the position up on retry
and takes a new one when the job is due. A lane competes with others by the sort key of its head.

**Order.** Ready jobs are fetched by sort key: the time when the job became ready minus ``PRIORITY_WEIGHT`` seconds for
each point of priority. A retry or snooze sets a new time; return, rescue and waiting for a limit keep the old one.

**Limits.** A fetch takes all limits of a job or none, in the step that fetches it; its acknowledgement frees the slots.
A pace counts starts, each at the latest time at which the worker may start the job: ``FetchRequest.start_within`` after
the fetch. So handlers that start by then are never closer together than the pace allows. A start keeps counting
whatever happens to the job, unless the job is returned unstarted. A job that finds no room waits in the line of the
first limit (in the order of keys) without room, and leaves the ready jobs. Lines are first come, first served. When
room appears, the first job in line of each name in each queue becomes ready again and keeps its ticket. A fetch serves
jobs of the names it asks for in order; other jobs delay nothing. So a key without room costs other jobs nothing. Where
figures for one key differ, a fetch has to satisfy its own and those of the fetched jobs, so the smaller one holds.

**Keys.** Of the jobs with one name and key, one holds the key: the first to be accepted. It holds the key until it has
ended, and for ``keep_key`` after that, but not longer than its history is kept. Others are not accepted meanwhile: the
call returns the holder instead, or raises ``KeyConflictError`` if the arguments differ. Only accepting looks at keys:
no retry, rescue or operation does.

**Waiting for others.** A job with ``after`` is blocked until all of those have ended. Then it takes its position and
its time, like a delayed job that is due. Only ``done`` counts as success, and a superseded job stands for the one that
superseded it; after any other end, ``if_failed`` decides. The others must exist when the job is accepted, so there are
no cycles. The next fetch of any worker notices an end, in bounded steps. A job that is enqueued and one that ends at
the same time never miss each other. When a person retries a failed job, those that are parked for it wait for it
again. When a person retries a job that waited, it waits again for those of the others that are unfinished.

**Expiry.** A job that has not started when it expires is never started: the next fetch of any worker ends it as
``expired``, wherever it waits. Until then it waits like any other. A fetched job comes with the seconds that are left,
and the worker returns it if it could not start in time. A job that has started does not expire, whatever happens to
that attempt; nor does one that a person retries.

**Fences.** Every fetch has a fence larger than any that the job had before. An acknowledgement needs it: with any other
fence than that of the present fetch it is refused and changes nothing. A fetch ends only by acknowledgement, or by
rescue after its session has ended; so while a session lives, no other session gets its jobs.

**Unreadable jobs.** A worker that cannot read a job's arguments returns it as ``UNREADABLE``. The store records the
version that could not read it. The job keeps its position and time, and is fetched only with ``FetchRequest.reads``
that contain a fingerprint which has not refused it. As a head it blocks its lane. It is shown as ready, or as parked if
no live worker registered for its queue can read it; a worker of another version takes it all the same. After a fetch
that returns it, it stays unreadable for that version; after a delay it is offered to all versions again. ``retry``
clears the recorded versions.

**Crashes.** Rescue makes a suspect of every job that the dead session may have been running: all fetched jobs, but of a
run only the first. Jobs that were not suspects before form a group, and so do suspects of one half; rescue splits each
group into two new halves of the same size, give or take one. A suspect is never fetched in advance or as part of a run,
and a session has suspects of at most one half at a time, beside any number of other jobs. So the halves of a group run
side by side only in different processes, and suspects of two groups never share one. The crash counts for a job only if
it was the only suspect in the session, or if there was no suspect and no other job that may have been running. After
``MAX_CRASHES`` such crashes the job is quarantined, which ends it. Any acknowledgement of an attempt other than
``RETURNED`` and ``UNREADABLE`` clears the suspicion; counted crashes stay, since a job that fails or snoozes between
two crashes is not proven harmless. Returning a job changes neither, nor does the death of a process that had been told
to end (``SessionStore.leave``): a deploy says nothing about a job.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlock.ports.leases import SessionEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.ports.job_logs import JobReport, LogBounds
    from interlock.ports.journal import Attribution
    from interlock.ports.limits import Use
    from interlock.ports.transactions import EnqueuedInTransaction, Steps

__all__ = [
    "MAX_AFTER",
    "MAX_ARGUMENT_BYTES",
    "MAX_ATTEMPTS_KEPT",
    "MAX_CRASHES",
    "PRIORITY_WEIGHT",
    "FetchRequest",
    "FetchResult",
    "FetchedJob",
    "IfFailed",
    "OnFailure",
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
"""Seconds of waiting that one point of priority is worth."""
MAX_CRASHES = 3
"""A job is quarantined after this many deaths of workers that had no other suspect."""
MAX_ARGUMENT_BYTES = 1024 * 1024
"""The largest size of a job's arguments, and of its result, as JSON."""
MAX_AFTER = 100
"""How many other jobs one job may wait for."""
MAX_ATTEMPTS_KEPT = 50
"""How many attempts of a job are kept: the first one and the latest ones."""


class JobState(StrEnum):
    """The state of a job, as people see it."""

    READY = "ready"
    BEHIND = "behind"
    """Waits for the jobs before it in its lane."""
    BLOCKED = "blocked"
    """Waits for other jobs to end."""
    SCHEDULED = "scheduled"
    """Due at a later time."""
    WAITING = "waiting"
    """Waits for a limit."""
    HELD = "held"
    """Head of a lane that is held or parked."""
    PARKED = "parked"
    FETCHED = "fetched"
    """At a worker, which has not reported its start: it waits there for a runner, or started about a second ago."""
    RUNNING = "running"
    """Its worker has reported that it started."""
    DONE = "done"
    FAILED = "failed"
    """Failed permanently: a dead letter, which a person can retry."""
    DISCARDED = "discarded"
    """Its handler had nothing to do."""
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    """A newer job of its lane does its work; see ``superseded_by``."""
    EXPIRED = "expired"
    """It had not started when its time was over."""
    QUARANTINED = "quarantined"
    """It killed too many workers; a person can retry it."""

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self in _FINAL

    @property
    def at_worker(self) -> bool:
        """Whether a worker has fetched the job and not acknowledged it."""
        return self in _AT_WORKER


_AT_WORKER = frozenset({JobState.FETCHED, JobState.RUNNING})
_FINAL = frozenset(
    {
        JobState.DONE,
        JobState.FAILED,
        JobState.DISCARDED,
        JobState.CANCELLED,
        JobState.SUPERSEDED,
        JobState.QUARANTINED,
        JobState.EXPIRED,
    }
)


class OnFailure(StrEnum):
    """What a failure of a job means for its lane."""

    BLOCK = "block"
    """The lane waits for retries of the job, and continues when it has failed permanently."""
    SKIP = "skip"
    """The lane continues at once; the job takes a new position at the end when it is due."""
    PARK = "park"
    """The lane waits for retries of the job, and is parked when it has failed permanently."""


class IfFailed(StrEnum):
    """What becomes of a job when one that it waits for ends without being done."""

    CANCEL = "cancel"
    """It is cancelled, and so are those that wait for it, as far as they say so."""
    PARK = "park"
    """It is parked. It goes on waiting when a person retries the one that failed."""
    RUN = "run"
    """It starts all the same, once all the others have ended."""


class NewJob(NamedTuple):
    """A job to accept."""

    id: int
    """An ID from ``ids``, used once."""
    name: str
    queue: str
    lane: str
    """Empty for none."""
    priority: int
    """0 to 100."""
    delay: float
    """Seconds from now until it is due, by the store's clock; 0 for at once."""
    at: float | None
    """When it is due, instead of ``delay``."""
    uses: tuple[Use, ...]
    """Its limits, in the order of their keys, each key once."""
    on_failure: OnFailure
    coalesce: bool
    """Whether the job directly behind it in the lane, of the same name and also coalescing, replaces it when it is
    fetched, and so on to the last of them."""
    keep_result: float
    """Seconds for which the result is kept."""
    arguments: str
    options: str
    """For the worker only; the store does not interpret them."""
    hooks: str = ""
    """The end hooks, as JSON ``[[name, queue, priority, [state, …]], …]``: when the job ends in one of the states, the
    store enqueues a job of that name in the transaction that ends it. Empty for none. See ``ports.job_hooks``."""
    cause: str = ""
    """What enqueued it, such as ``job:12`` or ``event:7``; the store does not interpret it. Empty for none."""
    key: str = ""
    """Of jobs with the same name and key only the first is accepted, for as long as it holds the key; empty for none.
    It holds the key until it has ended, and for ``keep_key`` after that."""
    keep_key: float = 0.0
    """Seconds for which the key is held after the end of the job, but not longer than its history is kept."""
    after: tuple[int, ...] = ()
    """The jobs that have to end before this one can start, each once; at most ``MAX_AFTER``."""
    if_failed: IfFailed = IfFailed.CANCEL
    """What becomes of it when one of ``after`` ends without being done."""
    expires: float | None = None
    """Seconds after which it is not started any more, counted from its acceptance by the store's clock."""
    expires_at: float | None = None
    """When it is not started any more, instead of ``expires``."""


class HandlerVersion(NamedTuple):
    """The version of a worker's handler for one job."""

    name: str
    fingerprint: str
    """The same for handlers that take the same arguments, in the same version of the program."""
    version: str
    """The version of the program, for people."""


class FetchRequest(NamedTuple):
    """What a worker wants to fetch."""

    session: str
    queues: tuple[str, ...]
    """Each queue gets its share of the fetch; the share that one cannot use goes to the others."""
    names: tuple[str, ...]
    """The names of jobs that the worker can run; others are not fetched."""
    limit: int
    """The largest number of jobs to return."""
    at_once: int
    """How many could start right now. Jobs with a pace and suspects are given only up to this number, and so are scarce
    slots: of a key with ``room`` left, at most the larger of ``at_once`` and half of ``room``."""
    run: int
    """The largest number of consecutive jobs of one lane. A run ends before a job with limits, a suspect, a job of
    another queue, one that could not be fetched by itself, or one with another name than those above. A job with limits
    is fetched alone."""
    fetch_number: int = 0
    """Increases with every fetch of a session; see ``return_unstarted``."""
    start_within: float = 0.0
    """How many seconds after the fetch the worker may start jobs with a pace. It returns those that it could not start
    by then."""
    reads: tuple[HandlerVersion, ...] = ()
    """If given, the fetch also considers unreadable jobs that none of these fingerprints refused, and parks those that
    no live worker can read. Workers pass it periodically, since such jobs are rare and the search is not free."""
    lanes: tuple[str, ...] = ()
    """If given, only the first jobs of these lanes are fetched, one of each. It is for callers that run a job of their
    own and need nothing else. Order, holds, limits and suspects are respected as in every fetch."""


class FetchedJob(NamedTuple):
    """A job given to a session."""

    id: int
    name: str
    queue: str
    lane: str
    fence: int
    attempt: int
    """1 for the first. Failures count; snoozes, returns and crashes do not."""
    crashes: int
    """How many workers died while this job was their only suspect."""
    half: int | None
    """The half of a group of suspects that it belongs to; None if it is not a suspect."""
    priority: int
    enqueued_at: float
    due_at: float
    """When it became ready, or took its position behind other jobs of its lane."""
    arguments: str
    options: str
    slots: tuple[str, ...]
    """The keys of the slots that it holds."""
    paced: bool = False
    """Whether it has a rate or cooldown, and so has to start within ``FetchRequest.start_within``."""
    cause: str = ""
    """As in ``NewJob``."""
    expires_in: float | None = None
    """Seconds after the fetch within which it has to start, or be returned; None if it does not expire."""
    window: StartWindow | None = None
    """Set by the worker for a job with a pace, or that expires."""


class StartWindow(NamedTuple):
    """When the handler of a job with a pace, or that expires, may start, by the worker's monotonic clock."""

    asked_at: float
    """When the worker sent the request: no later than the fetch."""
    start_by: float
    paced: bool = True
    """Whether the job has a pace."""


class FetchResult(NamedTuple):
    """The result of a fetch."""

    jobs: Sequence[FetchedJob]
    """In the order to start them. Jobs of one lane are adjacent and form a run."""
    recheck_in: float
    """Seconds after which there may be something to fetch without a notification; inf if there will be one. 0 if the
    fetch was cut short, for instance because many lanes had to be made ready first."""


class Outcome(StrEnum):
    """How a fetch ends."""

    DONE = "done"
    FAILED = "failed"
    """Permanently."""
    RETRY = "retry"
    """It failed and is due again after ``delay``. This counts as an attempt."""
    SNOOZED = "snoozed"
    """It is due again after ``delay``. This does not count as an attempt."""
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    PARKED = "parked"
    """It cannot run as it is, and a person has to act; ``error`` says why. This does not count as an attempt."""
    UNREADABLE = "unreadable"
    """The worker's version cannot read its arguments, so it never started. ``result`` is the JSON of the version's
    fingerprint and name; ``error`` says why."""
    RETURNED = "returned"
    """It never started; as if it had not been fetched."""


class Acknowledgement(NamedTuple):
    """The report of a worker that ends one fetch."""

    id: int
    fence: int
    outcome: Outcome
    ran: float = 0.0
    """Seconds from the start of the handler to its end."""
    delay: float = 0.0
    result: str | None = None
    error: str = ""
    """The type and message of the error, in one line."""
    trace: str = ""
    follow_ups: tuple[NewJob, ...] = ()
    """Only with ``DONE``: jobs that the store accepts in the transaction of this acknowledgement. It accepts none of
    them if the acknowledgement is refused, or repeats one that was accepted before."""


class Acknowledged(NamedTuple):
    """The answer to acknowledgements, in their order."""

    accepted: Sequence[bool]
    """False if the fetch had ended before: nothing was changed. Repeating an accepted acknowledgement is accepted."""
    ready: bool
    """Whether this made jobs ready."""
    blocked: Mapping[int, str] = MappingProxyType({})
    """Acknowledgements that could not be applied because another transaction has locked their rows: index, and what is
    locked by whom. Nothing was changed for them; send them again later, and ignore ``accepted`` for them. Only in a
    database whose rows others can lock."""


class Rescued(NamedTuple):
    """A job taken over from a session that has ended."""

    id: int
    name: str
    session: str
    crashes: int
    """How many crashes count for it, including this one if it does."""
    quarantined: bool
    half: int | None = None
    """The half of a group of suspects that it belongs to now; None if it is not a suspect, or has ended."""


_PAUSED = "paused "


def pause_cause(queue: str, by: str, reason: str) -> str:
    """Return the text of the message that a queue was paused."""
    return f"{_PAUSED}{queue} by {by}: {reason}"


def paused_queue(cause: str) -> str:
    """Return the queue that a message of :func:`pause_cause` is about; empty for any other message."""
    return cause.removeprefix(_PAUSED).split(" ", 1)[0] if cause.startswith(_PAUSED) else ""


class JobStore(Protocol):
    """Jobs in one store and namespace: what writers and workers need. ``JobInsight`` reads them."""

    async def ids(self, count: int) -> range:
        """Allocate this many IDs, in one round trip for many jobs."""
        ...

    async def enqueue(self, jobs: Sequence[NewJob], *, again: bool = False) -> Mapping[int, int]:
        """Accept jobs, all or none. Durable when it returns. Workers of their queues are notified.

        Takes no lock that another enqueue could wait for, unless jobs have keys. With ``again``, jobs that an earlier
        call stored are left as they are, so a call whose answer was lost can be repeated. Jobs of one call take their
        positions in its order. Returns the jobs that were not accepted because another holds their key, and that one.
        """
        ...

    def enqueue_in_transaction(self, jobs: Sequence[NewJob]) -> Steps[EnqueuedInTransaction]:
        """Accept jobs on a caller's own connection, as steps; see ``ports.transactions``. Their IDs are ignored.

        The jobs exist if and when the caller's transaction commits, and workers are notified then. Otherwise as
        ``enqueue``. Needs neither an open store nor an event loop. Raises ``CapabilityError`` if the store is not in a
        database, and ``MisuseError`` if the connection leads to another database than this store's; what identifies a
        database on PostgreSQL is known only once the store has been open.
        """
        ...

    async def fetch(self, request: FetchRequest) -> FetchResult | SessionEnded:
        """Give jobs to a session. Repeating after a lost answer gives other jobs: those of the lost answer are returned
        with ``return_unstarted``, or rescued when the session ends."""
        ...

    async def acknowledge(self, session: str, acknowledgements: Sequence[Acknowledgement]) -> Acknowledged:
        """End fetches, each on its own, all in one step. Works also after the session has ended, as long as the fetches
        are in force."""
        ...

    async def return_unstarted(self, session: str, but: Sequence[int] = (), *, fetch_number: int | None = None) -> int:
        """Return every job that a session has fetched, except these, as never started; returns how many.

        For a worker that stops, that lost the answer to a fetch, or whose session ended although it lives: no crash is
        counted. With ``fetch_number``, only jobs of fetches up to that number are returned, and a later fetch with such
        a number gives nothing. So neither a fetch nor this call does harm if its answer is lost and it takes effect
        late.
        """
        ...

    async def rescue(self, *, limit: int = 1000) -> Sequence[Rescued]:
        """Take over the jobs of ended sessions: make suspects of those that may have been running, and make all ready.

        If one session takes several calls, the jobs of each form groups of their own, and a crash can count only in the
        first."""
        ...

    async def register_worker(
        self,
        session: str,
        queues: Sequence[str],
        names: Sequence[str],
        runners: int,
        reads: Sequence[HandlerVersion] = (),
        queue_runners: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Register what a worker runs and can read: for explanations, and to decide whether any live worker can read a
        job that others could not. Ends with the session. ``queue_runners`` is how many jobs of each queue it runs at
        once; empty if every queue may use all runners."""
        ...

    async def report_started(self, session: str, started: Sequence[tuple[int, int]]) -> None:
        """Record that the jobs of these fetches (ID and fence) have started: they are shown as running until their
        fetch ends. Fetches of other sessions, and fetches that have ended, are ignored. Only for readers: nothing that
        the store decides depends on it, and it need not survive a crash of the store."""
        ...

    async def append_logs(self, reports: Sequence[JobReport], bounds: LogBounds) -> Sequence[bool]:
        """Append to the logs of fetched jobs, and set their progress; see ``ports.job_logs``.

        False for a report whose fetch has ended, or of which a later fetch has reported: nothing was changed for it.
        Repeating a report after a lost answer changes nothing. Each job occurs once. Waits for no fetch or
        acknowledgement and delays none. It need not survive a crash of the store unless an acknowledgement of the same
        session follows, which makes it durable too. Logs are removed with their jobs.
        """
        ...

    def on_ready(self, queues: Sequence[str], call: Callable[[], None]) -> Callable[[], None]:
        """Call back on the caller's loop when there may be jobs to fetch in one of these queues; returns a function to
        unsubscribe. Only a hint, like all messages; needs ``messages.listen``."""
        ...

    async def watch_end(self, session: str, ids: Sequence[int]) -> Sequence[int]:
        """Which of these jobs have ended (or are unknown). The session is notified of the end of each of the others, as
        the turn of the owner ``{session}.j{id}``, once."""
        ...

    # -- operations: each writes its journal entry in the same transaction; see ports.journal ------------------------

    async def hold(self, lane: str, attribution: Attribution) -> None:
        """Let no further job of the lane start until it is released. Running jobs continue; the sessions that have
        fetched more of the lane receive ``taken`` for the owner ``{session}.{fence}.j{id}`` of each, and return the
        jobs that have not started. Holding a lane again with the same actor and reason changes nothing."""
        ...

    async def release(self, lane: str, attribution: Attribution) -> bool:
        """End the hold, and let a parked lane continue; False if it was neither."""
        ...

    async def pause(self, queue: str, attribution: Attribution) -> None:
        """Let no job of the queue be fetched until it is resumed: none is from the moment this returns, by no process
        and no kind of fetch. Running jobs continue, and enqueues go on. Each session that has fetched jobs of the queue
        receives ``taken`` for the owner ``{session}.{fence}.j{id}`` of one of them or more, with a cause of
        ``pause_cause``, and returns all that have not started. Pausing a queue again with the same actor and reason
        changes nothing."""
        ...

    async def resume(self, queue: str, attribution: Attribution) -> bool:
        """End the pause; False if the queue was not paused. Workers of the queue are notified."""
        ...

    async def cancel(
        self,
        id: int,  # noqa: A002
        attribution: Attribution,
        *,
        unless_fetched: bool = False,
    ) -> JobState | None:
        """End a job that is not fetched, or ask the worker of one that is: its session receives ``taken`` for the owner
        ``{session}.{fence}.j{id}``, and any acknowledgement but ``DONE`` then counts as cancelled. Returns the new
        state; None for an unknown job. With ``unless_fetched``, a job that is fetched or has
        started before is left alone."""
        ...

    async def retry(self, id: int, attribution: Attribution) -> JobState | None:  # noqa: A002
        """Make a job ready now: one that is scheduled, parked, or that failed, was cancelled, discarded or quarantined
        (with its attempts and crashes at 0 and a new position). Any other is left as it is. Returns the new state; None
        for an unknown job."""
        ...

    async def prune(self, keep_history: float, *, limit: int = 10_000) -> int:
        """Remove history older than this and results past their time, in a bounded batch; returns how many."""
        ...

    async def vacuum(self) -> float:
        """Vacuum the tables of jobs, where the store would not do so soon enough by itself.

        Returns the seconds until the next call; infinity if there is never a need. Fetches and acknowledgements go on
        meanwhile, and also if this fails."""
        ...
