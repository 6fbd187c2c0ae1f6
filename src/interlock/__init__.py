"""Interlock makes automation safe to run concurrently.

A name is imported from its module when it is first used, so that ``import interlock`` is quick and loads no more than a
program needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_MODULES = {
    "interlock.app": ("App",),
    "interlock.claims": ("Claim", "Claims", "ClaimState"),
    "interlock.cursors": ("Cursor", "Cursors", "Position"),
    "interlock.errors": (
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
    ),
    "interlock.events": ("Event", "Events", "GitHub", "Hmac", "Receipt", "Verdict"),
    "interlock.jobs": (
        "Discard",
        "Handle",
        "Job",
        "Jobs",
        "JobState",
        "JobStatus",
        "Retry",
        "RetryLater",
        "Snooze",
        "current_job",
    ),
    "interlock.limits": ("Cooldown", "Limits", "Rate", "Reservation", "Slots"),
    "interlock.locks": ("FOREVER", "Lease", "Locks"),
    "interlock.settings": ("Settings",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Every public name, whether it was used or not."""
    return sorted({*globals(), *__all__})
