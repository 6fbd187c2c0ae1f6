"""Interlock makes automation safe to run concurrently."""

from interlock.app import App
from interlock.claims import Claim, Claims, ClaimState
from interlock.cursors import Cursor, Cursors, Position
from interlock.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    ConflictError,
    DeadlockError,
    EventError,
    EventGoneError,
    EventRefusedError,
    InterlockError,
    InvalidArgumentError,
    JobCancelledError,
    JobError,
    JobFailedError,
    JobTimeoutError,
    LeaseLostError,
    LimitError,
    LimitFullError,
    LimitTimeoutError,
    LockError,
    LockTimeoutError,
    MalformedEventError,
    MisuseError,
    NotFoundError,
    ResultGoneError,
    SchemaMismatchError,
    SignatureError,
    StoreError,
    StoreReplacedError,
    StoreUnavailableError,
)
from interlock.events import Event, Events, GitHub, Hmac, Receipt, Verdict
from interlock.jobs import Discard, Handle, Job, Jobs, JobState, JobStatus, Retry, RetryLater, Snooze, current_job
from interlock.limits import Cooldown, Limits, Rate, Reservation, Slots
from interlock.locks import FOREVER, Lease, Locks
from interlock.settings import Settings

__all__ = [
    # the application
    "App",
    "Settings",
    # locks
    "Locks",
    "Lease",
    "FOREVER",
    # claims
    "Claims",
    "Claim",
    "ClaimState",
    # cursors
    "Cursors",
    "Cursor",
    "Position",
    # limits
    "Limits",
    "Slots",
    "Rate",
    "Cooldown",
    "Reservation",
    # jobs
    "Jobs",
    "Job",
    "Handle",
    "JobState",
    "JobStatus",
    "Retry",
    "RetryLater",
    "Snooze",
    "Discard",
    "current_job",
    # events
    "Events",
    "Event",
    "GitHub",
    "Hmac",
    "Receipt",
    "Verdict",
    # errors
    "InterlockError",
    "MisuseError",
    "InvalidArgumentError",
    "NotFoundError",
    "LockError",
    "LockTimeoutError",
    "LeaseLostError",
    "DeadlockError",
    "LimitError",
    "LimitTimeoutError",
    "LimitFullError",
    "JobError",
    "JobFailedError",
    "JobCancelledError",
    "JobTimeoutError",
    "ResultGoneError",
    "EventError",
    "SignatureError",
    "MalformedEventError",
    "EventRefusedError",
    "EventGoneError",
    "ConflictError",
    "ConcurrencyConflictError",
    "StoreError",
    "StoreUnavailableError",
    "StoreReplacedError",
    "SchemaMismatchError",
    "CapabilityError",
]

__version__ = "0.1.0"
