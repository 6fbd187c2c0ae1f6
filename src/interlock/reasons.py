"""The reasons that ``explain`` gives: one table for all concepts.

A reason is a stable code for programs. Each has one meaning, whatever it is about. The explanation of a subject adds
the names, times and commands of the case at hand.
"""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["REASONS", "Reason", "ReasonInfo"]


class ReasonInfo(NamedTuple):
    """A row of the table."""

    subjects: tuple[str, ...]
    """The kinds of subjects that can have the reason."""
    sentence: str
    remedy: str
    """The usual remedy; empty if there is nothing to do."""


class Reason(StrEnum):
    """Why something is as it is; :data:`REASONS` says what each code means and what to do."""

    # jobs, lanes and queues
    READY = "ready"
    NO_WORKER = "no-worker"
    UNKNOWN_NAME = "unknown-name"
    UNREADABLE = "unreadable"
    SUSPECT = "suspect"
    ROW_LOCKED = "row-locked"
    DELAYED = "delayed"
    TO_BE_RETRIED = "to-be-retried"
    SNOOZED = "snoozed"
    BEHIND = "behind"
    BLOCKED = "blocked"
    LIMIT = "limit"
    PACE = "pace"
    LANE_HELD = "lane-held"
    LANE_PARKED = "lane-parked"
    QUEUE_PAUSED = "queue-paused"
    PARKED = "parked"
    FETCHED = "fetched"
    RUNNING = "running"
    LOCK = "lock"
    LOOP_BLOCKED = "loop-blocked"
    WORKER_GONE = "worker-gone"
    DISCARDED = "discarded"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    QUARANTINED = "quarantined"
    EXPIRED = "expired"
    LATE = "late"
    IDLE = "idle"
    # jobs, claims and events
    DONE = "done"
    FAILED = "failed"
    # locks and limits
    HELD = "held"
    AWAITED = "awaited"
    PASSING = "passing"
    FREE = "free"
    UNUSED = "unused"
    ROOM = "room"
    FULL = "full"
    TOO_SOON = "too-soon"
    # schedules
    UPCOMING = "upcoming"
    OVERLAPPING = "overlapping"
    SCHEDULE_PAUSED = "schedule-paused"
    SWITCHED_OFF = "switched-off"
    ORPHANED = "orphaned"
    NEVER_AGAIN = "never-again"
    # claims
    NEW = "new"
    IN_PROGRESS = "in-progress"
    HOLDER_GONE = "holder-gone"
    FAILED_NOT_DUE = "failed-not-due"
    # events
    WORKED_ON = "worked-on"
    WAITING = "waiting"
    STUCK = "stuck"
    HANDLED = "handled"
    FORGOTTEN = "forgotten"
    # records
    EDITED = "edited"
    FINAL = "final"
    MISSING = "missing"
    CONTENDED = "contended"
    UNKNOWN_STATUS = "unknown-status"
    # the journal
    SEALED = "sealed"
    UNSEALED = "unsealed"
    SEALING_LATE = "sealing-late"
    TAMPERED = "tampered"


_JOB, _JOB_OR_LANE = ("job",), ("job", "lane")

REASONS: Mapping[Reason, ReasonInfo] = MappingProxyType(
    {
        Reason.READY: ReasonInfo(
            ("job", "lane", "queue"), "A worker will fetch it when its turn comes.", "Wait, or start more workers."
        ),
        Reason.NO_WORKER: ReasonInfo(
            ("job", "lane", "queue", "schedule"), "No live worker serves its queue.", "Start a worker for the queue."
        ),
        Reason.UNKNOWN_NAME: ReasonInfo(
            _JOB_OR_LANE,
            "No worker of its queue knows a job with its name: an older or newer version of the program is running.",
            "Finish the deployment, or start a worker whose app defines the job.",
        ),
        Reason.UNREADABLE: ReasonInfo(
            _JOB_OR_LANE,
            "Some versions of the program cannot read its arguments. The explanation names those versions and the live "
            "workers that can.",
            "Wait, or finish the deployment.",
        ),
        Reason.SUSPECT: ReasonInfo(
            _JOB_OR_LANE,
            "A worker died while it had the job, and every worker that could fetch it is running suspects of another "
            "half. The explanation names the crash, both halves and those workers.",
            "Wait until those suspects have ended, or start another worker.",
        ),
        Reason.ROW_LOCKED: ReasonInfo(
            _JOB_OR_LANE,
            "It is ready, but another transaction keeps one of its rows in PostgreSQL locked, so that fetches skip it. "
            "The explanation names the backend.",
            "Commit or roll back that transaction, or run `select pg_terminate_backend(PID)`.",
        ),
        Reason.DELAYED: ReasonInfo(
            _JOB_OR_LANE, "It was enqueued for a later time.", "Wait, or run `interlock jobs retry ID`."
        ),
        Reason.TO_BE_RETRIED: ReasonInfo(
            _JOB_OR_LANE, "It failed and is not due again yet.", "Wait, or run `interlock jobs retry ID`."
        ),
        Reason.SNOOZED: ReasonInfo(
            _JOB_OR_LANE, "Its handler postponed it.", "Wait, or run `interlock jobs retry ID`."
        ),
        Reason.BEHIND: ReasonInfo(
            _JOB,
            "Other jobs in its lane come first. The explanation says what the first of them waits for.",
            "See that job.",
        ),
        Reason.BLOCKED: ReasonInfo(
            _JOB,
            "It starts after other jobs have ended. The explanation names them and their states.",
            "See those jobs.",
        ),
        Reason.LIMIT: ReasonInfo(
            _JOB_OR_LANE,
            "All slots of a limit are taken by the jobs that the explanation names.",
            "Wait for one of them, or raise the limit.",
        ),
        Reason.PACE: ReasonInfo(_JOB_OR_LANE, "A rate or cooldown allows the next start at the time given.", "Wait."),
        Reason.LANE_HELD: ReasonInfo(
            _JOB_OR_LANE, "A person holds its lane.", "Ask that person, or run `interlock lanes release LANE`."
        ),
        Reason.LANE_PARKED: ReasonInfo(
            _JOB_OR_LANE,
            "Its lane was parked after a failure. The explanation names the failed job.",
            "Fix the cause, release the lane, and retry the failed job if it is still needed.",
        ),
        Reason.QUEUE_PAUSED: ReasonInfo(
            ("job", "lane", "queue"),
            "A person paused its queue. The explanation says who, since when and why.",
            "Ask that person, or run `interlock queues resume QUEUE`.",
        ),
        Reason.PARKED: ReasonInfo(
            _JOB_OR_LANE, "It was set aside until a person acts.", "Fix the cause, then retry it."
        ),
        Reason.FETCHED: ReasonInfo(
            ("job", "lane", "queue"),
            "A worker has fetched it and has not reported that it started: it waits there for a free runner or for the "
            "job before it in its lane, or it started about a second ago. The explanation says where.",
            "Wait. If the worker is busy for long, it returns the job to its queue.",
        ),
        Reason.RUNNING: ReasonInfo(("job", "lane", "queue"), "A worker is running it. The explanation says where.", ""),
        Reason.LOCK: ReasonInfo(
            _JOB_OR_LANE,
            "It is running, and its handler waits for a lock. The explanation names the holder.",
            "See that lock.",
        ),
        Reason.LOOP_BLOCKED: ReasonInfo(
            _JOB_OR_LANE,
            "The event loop of the process that runs it is blocked, or only such processes could fetch it. The "
            "explanation names the blocking handler.",
            "Make that handler a plain `def`, or move the blocking call to a thread.",
        ),
        Reason.WORKER_GONE: ReasonInfo(
            _JOB_OR_LANE, "Its worker is gone, and no live worker can rescue it.", "Start a worker."
        ),
        Reason.DISCARDED: ReasonInfo(_JOB, "Its handler had nothing to do.", ""),
        Reason.CANCELLED: ReasonInfo(_JOB, "It was cancelled.", ""),
        Reason.SUPERSEDED: ReasonInfo(_JOB, "A newer job in its lane does its work.", "See that job."),
        Reason.QUARANTINED: ReasonInfo(
            _JOB, "Too many workers died while it was their only suspect.", "Find out why they died, then retry it."
        ),
        Reason.EXPIRED: ReasonInfo(
            _JOB, "It had not started when its time was over.", "If it is still needed, run `interlock jobs retry ID`."
        ),
        Reason.LATE: ReasonInfo(
            ("queue", "schedule"), "Jobs have been ready for a long time.", "Start more workers for the queue."
        ),
        Reason.IDLE: ReasonInfo(("lane", "queue"), "It has no job that could run, and it is not held.", ""),
        Reason.DONE: ReasonInfo(("job", "claim"), "It has been done.", ""),
        Reason.FAILED: ReasonInfo(
            ("job", "claim", "event"),
            "It failed permanently. A claim can be claimed again now; of an event, at least one job failed.",
            "Fix the cause, then retry it.",
        ),
        Reason.HELD: ReasonInfo(("lock",), "It is held, and has no waiters.", ""),
        Reason.AWAITED: ReasonInfo(
            ("lock",), "It is held, and others wait for it.", "Wait, or run `interlock locks release KEY`."
        ),
        Reason.PASSING: ReasonInfo(
            ("lock", "limit", "record"), "It has become free, and is reserved for the first waiter.", ""
        ),
        Reason.FREE: ReasonInfo(("lock", "record"), "It is free, and has no waiters.", ""),
        Reason.UNUSED: ReasonInfo(("limit",), "It is not in use: the next start is possible now.", ""),
        Reason.ROOM: ReasonInfo(("limit",), "The next start is possible now.", ""),
        Reason.FULL: ReasonInfo(("limit",), "All slots are taken.", "Wait for one of the holders, or raise the limit."),
        Reason.TOO_SOON: ReasonInfo(("limit",), "The next start is possible at the time given.", "Wait."),
        Reason.UPCOMING: ReasonInfo(("schedule",), "It fires at the time given.", ""),
        Reason.OVERLAPPING: ReasonInfo(
            ("schedule",),
            "The job of its last firing is unfinished: the next time is skipped, or its job waits behind it.",
            "See that job.",
        ),
        Reason.SCHEDULE_PAUSED: ReasonInfo(
            ("schedule",),
            "A person paused it. The explanation says who, since when and why.",
            "Ask that person, or run `interlock schedules resume NAME`.",
        ),
        Reason.SWITCHED_OFF: ReasonInfo(
            ("schedule",),
            "It was switched off because it cannot work. The explanation says why.",
            "Fix its job, or save it with valid values. A worker that can run it switches it on again when it starts.",
        ),
        Reason.ORPHANED: ReasonInfo(
            ("schedule",),
            "It was declared in code, and no live process declares it any more.",
            "Deploy the code that declares it, or run `interlock schedules delete NAME`.",
        ),
        Reason.NEVER_AGAIN: ReasonInfo(("schedule",), "It has no further time.", ""),
        Reason.NEW: ReasonInfo(("claim",), "It was never claimed, or is no longer kept.", ""),
        Reason.IN_PROGRESS: ReasonInfo(("claim",), "Its holder is handling it.", ""),
        Reason.HOLDER_GONE: ReasonInfo(
            ("claim",), "Its holder is gone or silent. The next claimant takes it over.", ""
        ),
        Reason.FAILED_NOT_DUE: ReasonInfo(
            ("claim",),
            "It failed, and can be claimed again at the time given.",
            "Wait, or run `interlock claims forget KEY`.",
        ),
        Reason.WORKED_ON: ReasonInfo(("event",), "One of its jobs is running.", ""),
        Reason.WAITING: ReasonInfo(
            ("event",), "None of its jobs is running, and at least one is not finished.", "See that job."
        ),
        Reason.STUCK: ReasonInfo(("event",), "One of its jobs is parked, or its lane is held.", "See that job."),
        Reason.HANDLED: ReasonInfo(("event",), "All of its jobs have ended, and none of them failed.", ""),
        Reason.FORGOTTEN: ReasonInfo(("event",), "Its jobs have ended and are no longer kept.", ""),
        Reason.EDITED: ReasonInfo(
            ("record",),
            "A caller is editing it, and other writes queue. The explanation names the editor and the waiters.",
            "Wait, or run `interlock locks release record:KIND:ID`.",
        ),
        Reason.FINAL: ReasonInfo(("record",), "It is free, and has a final status of its machine.", ""),
        Reason.MISSING: ReasonInfo(("record",), "It was never created, or was deleted.", ""),
        Reason.CONTENDED: ReasonInfo(
            ("record",),
            "It is free, but in the last ten minutes at least three of its last 20 writes lost to another write and "
            "were repeated.",
            "Set the strategy of the operation to `pessimistic`, so that writers queue instead of losing.",
        ),
        Reason.UNKNOWN_STATUS: ReasonInfo(
            ("record",),
            "The newest machine of its kind does not have its status: another version of the program wrote it.",
            "Finish the deployment, or add the status to the machine.",
        ),
        Reason.SEALED: ReasonInfo(("journal",), "Every entry is sealed.", ""),
        Reason.UNSEALED: ReasonInfo(
            ("journal",),
            "Some entries are not sealed yet. A worker seals them every minute.",
            "Wait, or run `interlock journal seal`.",
        ),
        Reason.SEALING_LATE: ReasonInfo(
            ("journal",),
            "An entry has not been sealed for more than ten minutes: no worker is running.",
            "Start a worker, or run `interlock journal seal`.",
        ),
        Reason.TAMPERED: ReasonInfo(
            ("journal",),
            "The last verification found an entry or a seal that was changed, removed or added.",
            "Find out who can write to the store, and restore the entries from a backup.",
        ),
    }
)
"""What each reason means, and what to do about it."""
