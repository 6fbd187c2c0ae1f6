"""Interlock for synchronous code: scripts, Flask, threads and plain-function handlers.

``app.sync`` has the operations of the app as plain calls, and ``job.enqueue_sync(…)`` enqueues a job. The first call
opens the app in a background thread, which ends with the program; where the app is open already, such as in a worker,
calls use its event loop. They can be made from any thread that runs no event loop, and after a fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

from interlock.claims.sync import SyncClaim, SyncClaims
from interlock.jobs.sync import SyncHandle, SyncJobs
from interlock.limits.sync import SyncLimits, SyncReservation
from interlock.locks.sync import SyncLease, SyncLeases, SyncLocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock.claims import Claims
    from interlock.jobs import Jobs
    from interlock.limits import Limits
    from interlock.locks import Locks
    from interlock.portal import Portal

__all__ = [
    "Sync",
    "SyncClaim",
    "SyncClaims",
    "SyncHandle",
    "SyncJobs",
    "SyncLease",
    "SyncLeases",
    "SyncLimits",
    "SyncLocks",
    "SyncReservation",
]

P = ParamSpec("P")
T = TypeVar("T")


class Sync:
    """An app for synchronous code."""

    def __init__(self, portal: Portal, locks: Locks, claims: Claims, limits: Limits, jobs: Callable[[], Jobs]) -> None:
        self._portal = portal
        self._jobs = jobs
        self.locks = SyncLocks(locks)
        """One holder per key at a time."""
        self.claims = SyncClaims(claims)
        """Each thing once."""
        self.limits = SyncLimits(limits)
        """How much at once, and how often."""

    @property
    def jobs(self) -> SyncJobs:
        """Durable units of work."""
        return SyncJobs(self._jobs())

    def run(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Await anything else of the app: ``app.sync.run(app.lanes.hold, "a#5", by="ann", reason="audit")``.

        The function is called and awaited on the app's event loop. It must not block.
        """
        name = getattr(function, "__name__", "function")
        return self._portal.run(
            lambda: function(*args, **kwargs), f"sync.run({name})", instead=f"await {name}(…)", waits=True
        )

    def close(self) -> None:
        """Close the app if the background thread has it open. Calls that wait are cancelled.

        It is closed by itself when the program ends. A later call opens it again.
        """
        self._portal.close()
