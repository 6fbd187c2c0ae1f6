"""Interlock makes automation safe to run concurrently.

The top level holds the names that a program uses every day. Errors are in :mod:`interlock.errors`; views, filters and
the rest are with their concept, such as :mod:`interlock.jobs`. A name is imported from its module on first use, so
``import interlock`` is quick and loads no more than a program needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.app import App
    from interlock.claims import Claim, Claims, ClaimState
    from interlock.cursors import Cursor, Cursors
    from interlock.events import Event, Events, GitHub, Hmac, Receipt
    from interlock.jobs import (
        INJECTED,
        Discard,
        Handle,
        Job,
        JobEnd,
        Jobs,
        JobState,
        Lanes,
        Queues,
        Retry,
        RetryLater,
        Snooze,
        current_job,
    )
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
    # limits
    "Limits",
    "Slots",
    "Rate",
    "Cooldown",
    "Reservation",
    # jobs
    "Jobs",
    "Lanes",
    "Queues",
    "Job",
    "Handle",
    "JobState",
    "JobEnd",
    "INJECTED",
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
]

__version__ = "0.1.0"

_MODULES = {
    "interlock.app": ("App",),
    "interlock.claims": ("Claim", "Claims", "ClaimState"),
    "interlock.cursors": ("Cursor", "Cursors"),
    "interlock.events": ("Event", "Events", "GitHub", "Hmac", "Receipt"),
    "interlock.jobs": (
        "INJECTED",
        "Discard",
        "Handle",
        "Job",
        "JobEnd",
        "Jobs",
        "JobState",
        "Lanes",
        "Queues",
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
