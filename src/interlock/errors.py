"""Every error Interlock raises, as one tree grouped by what the caller must do.

    InterlockError
    ├── MisuseError               mend the call
    │   └── InvalidArgumentError    (also a ValueError)
    ├── NotFoundError             ask for something that exists
    ├── LockError                 decide whether to try again
    │   ├── LockTimeoutError        (also a TimeoutError)
    │   ├── LeaseLostError
    │   └── DeadlockError
    ├── LimitError                wait, or ask for less
    │   ├── LimitTimeoutError       (also a TimeoutError)
    │   └── LimitFullError
    ├── JobError                  see what became of the job
    │   ├── JobFailedError
    │   ├── JobCancelledError
    │   ├── JobTimeoutError         (also a TimeoutError)
    │   └── ResultGoneError
    ├── EventError                see what came in
    │   ├── SignatureError
    │   ├── MalformedEventError
    │   ├── EventRefusedError
    │   └── EventGoneError
    ├── ConflictError             read again, then decide
    │   └── ConcurrencyConflictError
    └── StoreError                mend the store or its settings
        ├── StoreUnavailableError   (also a ConnectionError)
        ├── StoreReplacedError
        ├── SchemaMismatchError
        └── CapabilityError

Each class has a stable ``code`` for programs and ends its message with a remedy for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CapabilityError",
    "ConcurrencyConflictError",
    "ConflictError",
    "DeadlockError",
    "EventError",
    "EventGoneError",
    "EventRefusedError",
    "InterlockError",
    "InvalidArgumentError",
    "JobCancelledError",
    "JobError",
    "JobFailedError",
    "JobTimeoutError",
    "LeaseLostError",
    "LimitError",
    "LimitFullError",
    "LimitTimeoutError",
    "LockError",
    "LockTimeoutError",
    "MalformedEventError",
    "MisuseError",
    "NotFoundError",
    "ResultGoneError",
    "SchemaMismatchError",
    "SignatureError",
    "StoreError",
    "StoreReplacedError",
    "StoreUnavailableError",
]


class InterlockError(Exception):
    """Something that Interlock was asked to do cannot be done."""

    code: ClassVar[str] = "interlock"
    remedy: str = ""

    def __init__(self, message: str = "", *, remedy: str | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").partition("\n")[0]
        if self.message.endswith("..") and not self.message.endswith("..."):
            self.message = self.message[:-1]  # what was quoted at its end had a full stop already
        if remedy is not None:
            self.remedy = remedy
        super().__init__(f"{self.message} {self.remedy}".rstrip())


class MisuseError(InterlockError):
    """Interlock was called in a way that cannot work."""

    code = "misuse"


class InvalidArgumentError(MisuseError, ValueError):
    """An argument is not acceptable."""

    code = "invalid-argument"


class NotFoundError(InterlockError):
    """The thing asked for does not exist."""

    code = "not-found"


class LockError(InterlockError):
    """A lock could not be taken or kept."""

    code = "lock"


class LockTimeoutError(LockError, TimeoutError):
    """The lock did not come free within the time to wait."""

    code = "lock-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see who holds it: interlock locks show KEY."


class LeaseLostError(LockError):
    """The lease ended while its holder was still at work."""

    code = "lease-lost"
    remedy = "What the body did since then may overlap with the next holder; fenced writes were refused."


class DeadlockError(LockError):
    """Waiting here would close a cycle of waits that nothing could ever end.

    ``cycle`` names its members in order: each waits for the next, the last one for the first.
    """

    code = "deadlock"
    remedy = "Release what is held and try again; take several locks at once with acquire_many."

    def __init__(self, message: str = "", *, cycle: Sequence[str] = (), remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.cycle = tuple(cycle)


class LimitError(InterlockError):
    """A limit does not let this start."""

    code = "limit"


class LimitTimeoutError(LimitError, TimeoutError):
    """The turn did not come within the time to wait."""

    code = "limit-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see who is before you: interlock limits show KEY."


class LimitFullError(LimitError):
    """So many wait for this limit already that no more can be taken on."""

    code = "limit-full"
    remedy = "Turn work away sooner, or raise the limit."


class JobError(InterlockError):
    """A job has no result to give."""

    code = "job"

    def __init__(self, message: str = "", *, job: int = 0, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.job = job
        """Its id."""


class JobFailedError(JobError):
    """The job failed for good, or killed too many workers.

    ``error`` says in one line what its last attempt failed of, ``trace`` where, and ``state`` how it ended.
    """

    code = "job-failed"
    remedy = "Mend the cause, then have it tried again: interlock jobs retry ID."

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
    """The job was cancelled, or its handler found that there is nothing to do."""

    code = "job-cancelled"
    remedy = "Enqueue another, or have it tried after all: interlock jobs retry ID."


class JobTimeoutError(JobError, TimeoutError):
    """The job did not end within the time to wait. It goes on."""

    code = "job-timeout"
    remedy = "Wait longer (wait=…, or FOREVER), or see why it takes so long: interlock explain job ID."


class ResultGoneError(JobError):
    """The result is no longer kept."""

    code = "result-gone"
    remedy = "Ask sooner, or have it kept for longer: keep_result=…."


class EventError(InterlockError):
    """An event cannot be taken, or is not there any more."""

    code = "event"


class SignatureError(EventError):
    """The delivery is not signed, or not with a secret that is known here."""

    code = "signature"
    remedy = "Set the same secret here and at the sender."


class MalformedEventError(EventError):
    """The delivery is signed, but cannot be read."""

    code = "malformed-event"
    remedy = "Look at what the sender has sent."


class EventRefusedError(EventError):
    """A rule of the app failed over the event: nothing was stored."""

    code = "event-refused"
    remedy = "Mend the rule, then have it delivered again."


class EventGoneError(EventError):
    """The event is no longer kept."""

    code = "event-gone"
    remedy = "Keep events for longer: keep_events_seconds=…."


class ConflictError(InterlockError):
    """Something changed since it was looked at."""

    code = "conflict"


class ConcurrencyConflictError(ConflictError):
    """Somebody else was faster; nothing was changed."""

    code = "concurrency-conflict"
    remedy = "Read again, and decide anew."


class StoreError(InterlockError):
    """The store cannot do what was asked."""

    code = "store"


class StoreUnavailableError(StoreError, ConnectionError):
    """The store did not answer in time."""

    code = "store-unavailable"
    remedy = "Check that it is running and reachable; the call may be repeated."


class StoreReplacedError(StoreError):
    """The store was deleted or replaced while it was in use.

    Waiting does not help: a process keeps to the store that it opened, and has to be started again.
    """

    code = "store-replaced"
    remedy = (
        "This process does no more work in it. Stop every process that uses the database, restore or delete it "
        "together with its -wal and -shm files, then start them again."
    )


class SchemaMismatchError(StoreError):
    """The tables in the store do not fit this version of Interlock."""

    code = "schema-mismatch"
    remedy = "Run: interlock migrate up."


class CapabilityError(StoreError):
    """This store does not offer what was asked for."""

    code = "capability"
