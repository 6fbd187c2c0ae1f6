"""Reports which fetched jobs have started, so that readers can tell a running job from one that waits for a runner.

A start costs no write: reports are sent from the watchdog's timer, at most once a second, and name only jobs that were
not reported before. Jobs that end within ``_MIN_SECONDS`` are never reported. So a job may be shown as fetched for
about a second after it has started. See docs/decisions/0041-workers-report-started-jobs.md.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.chore import Health
    from interlock.jobs.worker.runner_pool import RunnerPool
    from interlock.sessions import Session

__all__ = ["StartReporter"]

_INTERVAL = 1.0
_MIN_SECONDS = 0.1
"""How long a handler has to run before it is reported. Most handlers end sooner."""


class StartReporter:
    """One for all workers of an engine. Never more than one report is under way."""

    def __init__(self, engine: JobEngine, health: Health) -> None:
        self._engine = engine
        self._chore = Chore("report_started", engine.monotonic, health)
        self._reported: set[tuple[int, int]] = set()
        self._next_at = -math.inf
        self._task: asyncio.Task[None] | None = None

    def check(self, pools: Iterable[RunnerPool]) -> None:
        """Report the jobs that have started since the last report, if there are any and it is time."""
        session, now = self._engine.session, self._engine.monotonic()
        if session.lost or now < self._next_at or self._task is not None:
            return
        started = {fetch for pool in pools for fetch in pool.started_fetches(session, now - _MIN_SECONDS)}
        new = started - self._reported
        self._reported &= started  # the fence of a fetch is never used again
        if new:
            self._next_at = now + _INTERVAL
            self._task = asyncio.create_task(self._report(session, new), name="interlock-start-reporter")

    async def stop(self) -> None:
        """Cancel a report that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None  # a task that never ran has not cleared it

    async def _report(self, session: Session, started: set[tuple[int, int]]) -> None:
        async def report() -> bool:
            await self._engine.jobs.report_started(session.id, sorted(started))
            return True

        try:
            if await self._chore.attempt(report):
                self._reported |= started
        finally:
            self._task = None
