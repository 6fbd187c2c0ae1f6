"""Every error Interlock raises, as one tree grouped by what the caller must do.

    InterlockError
    ├── MisuseError                fix the call
    │   ├── InvalidArgumentError     (also a ValueError)
    │   └── KeyConflictError
    ├── NotFoundError              ask for something that exists
    │   ├── EventGoneError
    │   ├── RecordNotFoundError
    │   └── ResultGoneError
    ├── WaitTimeoutError           wait longer, or do something else (also a TimeoutError)
    │   ├── LockTimeoutError
    │   ├── LimitTimeoutError
    │   └── JobTimeoutError
    ├── RetryableError             start over; nothing was changed
    │   ├── DeadlockError
    │   ├── ConcurrencyConflictError
    │   └── LimitFullError
    ├── RecordError                change the request; the record does not allow it
    │   ├── RecordExistsError
    │   ├── InvalidTransitionError
    │   └── CorrectionRefusedError
    ├── LeaseLostError             stop; another process may own it now
    │   └── StaleFenceError
    ├── JobError                   find out how the job ended
    │   ├── JobFailedError
    │   ├── JobCancelledError
    │   │   └── JobExpiredError
    │   └── PipelineError
    ├── EventError                 reject the delivery
    │   ├── SignatureError
    │   ├── MalformedEventError
    │   └── EventRefusedError
    └── StoreError                 reach, repair or replace the store
        ├── StoreUnavailableError    (also a ConnectionError)
        ├── StoreReplacedError
        ├── SchemaMismatchError
        └── CapabilityError

Each class has a stable ``code`` for programs. Each message ends with a remedy for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "CapabilityError",
    "ConcurrencyConflictError",
    "CorrectionRefusedError",
    "DeadlockError",
    "EventError",
    "EventGoneError",
    "EventRefusedError",
    "InterlockError",
    "InvalidArgumentError",
    "InvalidTransitionError",
    "JobCancelledError",
    "JobError",
    "JobExpiredError",
    "JobFailedError",
    "JobTimeoutError",
    "KeyConflictError",
    "LeaseLostError",
    "LimitFullError",
    "LimitTimeoutError",
    "LockTimeoutError",
    "MalformedEventError",
    "MisuseError",
    "NotFoundError",
    "PipelineError",
    "RecordError",
    "RecordExistsError",
    "RecordNotFoundError",
    "ResultGoneError",
    "RetryableError",
    "SchemaMismatchError",
    "SignatureError",
    "StaleFenceError",
    "StoreError",
    "StoreReplacedError",
    "StoreUnavailableError",
    "WaitTimeoutError",
]


class InterlockError(Exception):
    """Interlock could not do what it was asked to do."""

    code: ClassVar[str] = "interlock"
    remedy: str = ""

    def __init__(self, message: str = "", *, remedy: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        if self.message.endswith("..") and not self.message.endswith("..."):
            self.message = self.message[:-1]  # the text quoted at its end already had a full stop
        if remedy is not None:
            self.remedy = remedy
        super().__init__(f"{self.message} {self.remedy}".rstrip())


# -- fix the call ------------------------------------------------------------------------------------------------------


class MisuseError(InterlockError):
    """Interlock was called in a way that cannot work."""

    code = "misuse"
    remedy = "Fix the call."


class InvalidArgumentError(MisuseError, ValueError):
    """An argument is invalid."""

    code = "invalid-argument"
    remedy = "Pass a valid argument."


class KeyConflictError(MisuseError):
    """Another job with other arguments holds the key. Nothing was enqueued."""

    code = "key-conflict"
    remedy = "Use another key for other arguments."


# -- ask for something that exists -------------------------------------------------------------------------------------


class NotFoundError(InterlockError):
    """The requested object does not exist."""

    code = "not-found"
    remedy = "Check the key or ID."


class EventGoneError(NotFoundError):
    """The event is no longer kept."""

    code = "event-gone"
    remedy = "Keep events for longer: keep_events=…."


class RecordNotFoundError(NotFoundError):
    """The record does not exist."""

    code = "record-not-found"
    remedy = "Check its ID, or create it."


class ResultGoneError(NotFoundError):
    """The result is no longer kept."""

    code = "result-gone"
    remedy = "Ask sooner, or keep results for longer: keep_result=…."

    def __init__(self, message: str = "", *, job: int = 0, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        """The job's ID."""


# -- wait longer, or do something else ---------------------------------------------------------------------------------


class WaitTimeoutError(InterlockError, TimeoutError):
    """The wait took longer than the caller allowed."""

    code = "wait-timeout"
    remedy = "Wait longer: wait=…, or FOREVER."


class LockTimeoutError(WaitTimeoutError):
    """The lock was not released within the time to wait."""

    code = "lock-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see who holds it: interlock locks show KEY."


class LimitTimeoutError(WaitTimeoutError):
    """The limit did not allow a start within the time to wait."""

    code = "limit-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see who is ahead: interlock limits show KEY."


class JobTimeoutError(WaitTimeoutError):
    """The job did not end within the time to wait. It keeps running."""

    code = "job-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see why it takes so long: interlock explain job ID."

    def __init__(self, message: str = "", *, job: int = 0, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        """The job's ID."""


# -- start over --------------------------------------------------------------------------------------------------------


class RetryableError(InterlockError):
    """The operation lost against another one, and nothing was changed."""

    code = "retryable"
    remedy = "Start over."


class DeadlockError(RetryableError):
    """Transactions or lock holders wait for one another, so no wait could ever end.

    ``deadlock_info`` has the details. If Interlock found the deadlock, ``cycle`` describes its members in order: each
    waits for the next, and the last waits for the first. If ``retry_on_deadlock`` gave up, ``max_retries`` is the
    number of attempts and ``last_error`` describes why the last one failed.
    """

    code = "deadlock"
    remedy = "Release what is held and retry; acquire several locks at once with acquire_many."

    def __init__(
        self,
        message: str = "",
        deadlock_info: Mapping[str, object] | None = None,
        *,
        cycle: Sequence[str] = (),
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.cycle = tuple(cycle)
        """The members of the cycle; empty if a database found the deadlock."""
        self.deadlock_info: dict[str, object] = dict(deadlock_info or {})
        if self.cycle:
            self.deadlock_info["cycle"] = self.cycle


class ConcurrencyConflictError(RetryableError):
    """Another process changed it first; nothing was written."""

    code = "concurrency-conflict"
    remedy = "Read it again, then decide again."


class LimitFullError(RetryableError):
    """Too many callers already wait for this limit."""

    code = "limit-full"
    remedy = "Reject work earlier, or raise the limit."


# -- change the request ------------------------------------------------------------------------------------------------


class RecordError(InterlockError):
    """The record does not allow the change; nothing was written. Retrying does not help."""

    code = "record"
    remedy = "Read the record, then ask for something that it allows."


class RecordExistsError(RecordError):
    """A record with this ID already exists."""

    code = "record-exists"
    remedy = "Use another ID, or update the record."


class InvalidTransitionError(RecordError):
    """The machine has no transition from the record's status to the requested one."""

    code = "invalid-transition"
    remedy = "Choose a status that the machine allows."

    def __init__(self, message: str = "", *, status: str = "", requested: str = "", remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        """The record's status."""
        self.requested = requested


class CorrectionRefusedError(RecordError):
    """The correction is invalid.

    ``reason`` is a stable code: what is wrong with it.
    """

    code = "correction-refused"
    remedy = "Fix the correction."

    def __init__(self, message: str = "", *, reason: str = "", remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.reason = reason


# -- stop --------------------------------------------------------------------------------------------------------------


class LeaseLostError(InterlockError):
    """The lease ended while its holder was still working."""

    code = "lease-lost"
    remedy = "Work done since then may overlap with the next holder's; fenced writes were refused."


class StaleFenceError(LeaseLostError):
    """The record has already seen a larger fence; nothing was written."""

    code = "stale-fence"
    remedy = "Stop: a later holder of the lock or the job has written."


# -- find out how the job ended ----------------------------------------------------------------------------------------


class JobError(InterlockError):
    """The job ended without a result."""

    code = "job"
    remedy = "See how it ended: interlock jobs show ID."

    def __init__(self, message: str = "", *, job: int = 0, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        """The job's ID."""


class JobFailedError(JobError):
    """The job failed permanently, or crashed too many workers.

    ``error`` describes why its last attempt failed, ``trace`` shows where, and ``state`` is its final state.
    """

    code = "job-failed"
    remedy = "Fix the cause, then retry: interlock jobs retry ID."

    def __init__(
        self,
        message: str = "",
        *,
        job: int = 0,
        state: str = "",
        error: str = "",
        trace: str = "",
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, job=job, remedy=remedy)
        self.state = state
        self.error = error
        self.trace = trace


class JobCancelledError(JobError):
    """The job was cancelled, or its handler discarded it."""

    code = "job-cancelled"
    remedy = "Enqueue another job, or retry this one: interlock jobs retry ID."


class JobExpiredError(JobCancelledError):
    """The job had not started when its time was over, and never will."""

    code = "job-expired"
    remedy = "Enqueue another job with more time, or run this one after all: interlock jobs retry ID."


class PipelineError(JobError):
    """A stage failed, and with it the run of its pipeline.

    ``stage`` is the name of the stage, ``job`` the ID of the run, ``record`` the ID of its record, and ``error``
    describes why the stage failed. If the stage ran in this process, ``__cause__`` is its own error.
    """

    code = "pipeline-failed"
    remedy = "Fix the cause, then run the pipeline again."

    def __init__(
        self,
        message: str = "",
        *,
        job: int = 0,
        stage: str = "",
        record: str = "",
        error: str = "",
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, job=job, remedy=remedy)
        self.stage = stage
        self.record = record
        self.error = error


# -- reject the delivery -----------------------------------------------------------------------------------------------


class EventError(InterlockError):
    """The delivery cannot be accepted as an event."""

    code = "event"
    remedy = "Reject the delivery."


class SignatureError(EventError):
    """The delivery has no signature, or none that matches a known secret."""

    code = "signature"
    remedy = "Configure the same secret here and at the sender."


class MalformedEventError(EventError):
    """The delivery is signed but cannot be parsed."""

    code = "malformed-event"
    remedy = "Check what the sender sent."


class EventRefusedError(EventError):
    """A rule of the app failed for the event; nothing was stored."""

    code = "event-refused"
    remedy = "Fix the rule, then deliver the event again."


# -- reach, repair or replace the store --------------------------------------------------------------------------------


class StoreError(InterlockError):
    """The store cannot do what was asked."""

    code = "store"
    remedy = "Check the store and its settings."


class StoreUnavailableError(StoreError, ConnectionError):
    """The store did not answer in time."""

    code = "store-unavailable"
    remedy = "Check that it is running and reachable; the call can be repeated."


class StoreReplacedError(StoreError):
    """The store was deleted or replaced while it was in use.

    Waiting does not help: a process stays with the store that it opened and has to be restarted.
    """

    code = "store-replaced"
    remedy = (
        "This process does no more work in it. Stop every process that uses the database, restore or delete it "
        "together with its -wal and -shm files, then start them again."
    )


class SchemaMismatchError(StoreError):
    """The store's schema does not match this version of Interlock."""

    code = "schema-mismatch"
    remedy = "Run: interlock migrate up."


class CapabilityError(StoreError):
    """The store does not support what was asked for."""

    code = "capability"
    remedy = "Choose another store for this part."
