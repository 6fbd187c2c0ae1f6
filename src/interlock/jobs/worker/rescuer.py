"""Takes over the jobs of sessions that have ended, so that live workers can run them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from interlock.jobs.worker.chore import Chore
from interlock.telemetry.log import emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.jobs.engine import JobEngine
    from interlock.jobs.worker.chore import Health
    from interlock.ports.jobs import Rescued

__all__ = ["rescue_periodically"]

_log = logging.getLogger("interlock.jobs")
_INTERVAL = 2.0
_MAX_JOBS = 1000


async def rescue_periodically(engine: JobEngine, health: Health) -> None:
    """Rescue about every two seconds, while the store has been reachable for a while.

    After an outage other live workers may have lost their sessions too. They get time to return their jobs themselves:
    a rescue would count as a crash against those jobs.
    """
    chore = Chore("rescue", engine.monotonic, health)

    async def rescue() -> None:
        while health.sound:
            rescued = await engine.jobs.rescue(limit=_MAX_JOBS)
            _report(engine, rescued)
            if len(rescued) < _MAX_JOBS:
                break

    while True:
        await chore.pause(_INTERVAL)
        await chore.attempt(rescue)


def _report(engine: JobEngine, rescued: Sequence[Rescued]) -> None:
    engine.metrics.rescued += len(rescued)
    for job in rescued:
        if job.quarantined:
            engine.metrics.quarantined += 1
            emit(
                _log,
                logging.ERROR,
                "job_quarantined",
                id=job.id,
                job=job.name,
                session=job.session,
                crashes=job.crashes,
            )
        else:
            emit(
                _log,
                logging.WARNING,
                "job_rescued",
                id=job.id,
                job=job.name,
                session=job.session,
                crashes=job.crashes,
                half=job.half,
            )
