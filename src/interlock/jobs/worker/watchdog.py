"""One periodic check of a worker instead of a timer for each job.

The watchdog stops running jobs when the session's time is over, should even its heartbeat be silent. It also returns
prefetched jobs that turn out to wait behind long ones, and has the jobs that run reported to the store, with what they
log.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.jobs.worker.coordinator import Coordinator
    from interlock.jobs.worker.runner_pool import RunnerPool

__all__ = ["Watchdog"]

_INTERVAL = 0.5
_MIN_PAUSE = 0.01
_STALLED_CHECKS = 2
_LONG = 1.0


class Watchdog:
    """Checks the fetched jobs of one worker, from :meth:`start` to :meth:`stop`."""

    def __init__(self, pool: RunnerPool, coordinator: Coordinator) -> None:
        self._pool = pool
        self._coordinator = coordinator
        self._timer: asyncio.TimerHandle | None = None
        self._taken = 0
        self._stalled = 0

    def start(self) -> None:
        """Schedule the next check."""
        now, batch = self._pool.monotonic(), self._pool.buffer.session_batch
        pause = _INTERVAL if batch.lost else min(_INTERVAL, max(batch.session.deadline - now, _MIN_PAUSE))
        self._timer = asyncio.get_running_loop().call_later(pause, self._check)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        now, batch = self._pool.monotonic(), self._pool.buffer.session_batch
        if not batch.lost and now >= batch.session.deadline:
            self._pool.lose_session(batch.session)
        else:
            self._return_behind_long(now)
            self._coordinator.report()
        self.start()

    def _return_behind_long(self, now: float) -> None:
        pool = self._pool
        buffer = pool.buffer
        if buffer.count and buffer.taken == self._taken and not pool.free:
            self._stalled += 1
        else:
            self._stalled = 0
        self._taken = buffer.taken
        if self._stalled >= _STALLED_CHECKS:
            self._stalled = 0
            pool.throughput.stalled(_LONG)
            pool.return_jobs(buffer.empty())
        pool.return_behind_long(now - _LONG)
